"""Groups of threads of this process, over real connections."""

import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from earl_trainer.asynchronous.flat_weights import FlatLayout
from earl_trainer.asynchronous.weight_group import (
    BrokenBroadcastError,
    Meeting,
    choose_backend,
    device_id_of,
    device_key,
    join_group,
    open_group,
)
from torch import nn

LOOPBACK = "127.0.0.1"


def run_receivers(num_receivers, act, *, timeout_s=10.0):
    """Sign receivers in, let each act on its group in a thread, and return group 0 and results."""
    store = dist.TCPStore(
        LOOPBACK, 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=20)
    )
    results, size = {}, num_receivers + 1

    def receive(rank):
        meeting = Meeting(host=LOOPBACK, port=store.port, rank=rank, size=size, timeout_s=timeout_s)
        try:
            results[rank] = act(rank, join_group(meeting, ""))
        except BrokenBroadcastError as error:
            results[rank] = error

    threads = [
        threading.Thread(target=receive, args=(rank,), daemon=True) for rank in range(1, size)
    ]
    for thread in threads:
        thread.start()
    while not store.check([device_key(rank) for rank in range(1, size)]):
        time.sleep(0.01)
    return open_group(store, size=size, device_id="", timeout_s=timeout_s), threads, results


@pytest.mark.parametrize("num_receivers", [1, 4])
@pytest.mark.parametrize("bucket_bytes", [1000, 1 << 20])
def test_every_receiver_gets_the_bytes_of_the_sender(num_receivers, bucket_bytes):
    rng = torch.Generator().manual_seed(0)
    parameters = [
        torch.randn(1000, generator=rng),
        torch.randn(31, 7, generator=rng).to(torch.bfloat16),
    ]
    layout = FlatLayout.of(parameters)
    group, threads, results = run_receivers(
        num_receivers,
        lambda rank, own: [own.receive(layout, bucket_bytes) for _ in range(2)],
    )
    sent = []
    for _ in range(2):
        group.send(parameters, bucket_bytes)
        sent.append([parameter.clone() for parameter in parameters])
        # What has been sent may be overwritten at once.
        for parameter in parameters:
            parameter.mul_(-2.0)
    for thread in threads:
        thread.join(10.0)
    assert sorted(results) == list(range(1, num_receivers + 1))
    for rows in results.values():
        for row, expected in zip(rows, sent, strict=True):
            for content, parameter in zip(layout.split(row), expected, strict=True):
                own = content.view(parameter.dtype).view(parameter.shape)
                assert torch.equal(own, parameter)


def test_letting_go_of_the_group_ends_what_the_others_wait_for():
    layout = FlatLayout(sizes_bytes=(1000,))
    group, threads, results = run_receivers(2, lambda rank, own: own.receive(layout, 100))
    start_s = time.monotonic()
    del group
    for thread in threads:
        thread.join(5.0)
    assert time.monotonic() - start_s < 4.0
    assert all(isinstance(error, BrokenBroadcastError) for error in results.values())
    assert len(results) == 2


def test_a_receiver_that_does_not_receive_breaks_the_broadcast_in_time():
    told = threading.Event()
    group, threads, _ = run_receivers(1, lambda rank, own: told.wait(20.0), timeout_s=1.0)
    start_s = time.monotonic()
    with pytest.raises(BrokenBroadcastError):
        group.send([torch.zeros(40_000_000, dtype=torch.uint8)], 20_000_000)
    assert time.monotonic() - start_s < 2.5
    told.set()
    threads[0].join(5.0)


def test_a_sender_that_is_not_there_is_said_in_time():
    store = dist.TCPStore(
        LOOPBACK, 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=20)
    )
    meeting = Meeting(host=LOOPBACK, port=store.port, rank=1, size=2, timeout_s=0.5)
    with pytest.raises(BrokenBroadcastError, match="the sender does not answer"):
        join_group(meeting, "")


@pytest.mark.parametrize(
    ("device_ids", "backend"),
    [
        (["a", "b", "c"], "nccl"),
        (["a", "b", "a"], "gloo"),
        (["", "b"], "gloo"),
        (["", ""], "gloo"),
    ],
)
def test_nccl_needs_a_gpu_of_its_own_for_each(device_ids, backend):
    assert choose_backend(device_ids) == backend


def test_a_model_on_the_cpu_has_no_gpu():
    assert device_id_of(nn.Linear(2, 2)) == ""
