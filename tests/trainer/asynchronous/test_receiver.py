import threading
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from earl_trainer.asynchronous.flat_weights import FlatLayout
from earl_trainer.asynchronous.receiver import WeightReceiver
from earl_trainer.asynchronous.weight_group import Meeting, device_key, open_group


def meet(receiver):
    store = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=20)
    )
    meeting = Meeting(host="127.0.0.1", port=store.port, rank=1, size=2, timeout_s=5.0)
    said = []
    thread = threading.Thread(target=lambda: said.append(receiver.join(meeting)))
    thread.start()
    store.wait([device_key(1)], timedelta(seconds=5))
    group = open_group(store, size=2, device_id="", timeout_s=5.0)
    thread.join(5.0)
    assert said == [None]
    return group


def receive(receiver, layout):
    said = []
    thread = threading.Thread(target=lambda: said.append(receiver.receive(layout, 100)))
    thread.start()
    return thread, said


def test_what_arrived_is_taken_once_and_is_what_was_sent_last():
    receiver, parameters = WeightReceiver(), [torch.arange(50.0), torch.ones(3)]
    layout, group = FlatLayout.of(parameters), meet(receiver)
    for _ in range(2):
        thread, said = receive(receiver, layout)
        group.send(parameters, 100)
        thread.join(5.0)
        assert said == [None]
        parameters[0].add_(1.0)
    first, second = receiver.take()
    assert torch.equal(first.view(torch.float32), torch.arange(50.0) + 1.0)
    assert torch.equal(second.view(torch.float32), torch.ones(3))
    with pytest.raises(RuntimeError, match="no weights have arrived"):
        receiver.take()


def test_nothing_can_be_taken_of_a_broadcast_that_broke_off_and_the_next_group_works():
    receiver, parameters = WeightReceiver(), [torch.arange(50.0)]
    layout, group = FlatLayout.of(parameters), meet(receiver)
    thread, said = receive(receiver, layout)
    del group
    thread.join(5.0)
    assert len(said) == 1
    assert said[0]
    with pytest.raises(RuntimeError, match="no weights have arrived"):
        receiver.take()
    assert receiver.receive(layout, 100) == "it has joined no group"

    group = meet(receiver)
    thread, said = receive(receiver, layout)
    group.send(parameters, 100)
    thread.join(5.0)
    assert torch.equal(receiver.take()[0].view(torch.float32), parameters[0])


def test_a_meeting_without_a_sender_is_told_and_not_raised():
    meeting = Meeting(host="127.0.0.1", port=9, rank=1, size=2, timeout_s=0.5)
    said = WeightReceiver().join(meeting)
    assert said is not None
    assert "the sender does not answer" in said
