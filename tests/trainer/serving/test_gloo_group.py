"""A sender and its receivers, each in a thread."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist
from earl_trainer.serving.gloo_group import broadcast, find_store, join_group, open_store

TIMEOUT_S = 20.0


def send_to_two(tensor):
    """Return what two receivers got."""
    store = open_store(3, timeout_s=TIMEOUT_S)

    def send():
        group = join_group(store, rank=0, num_processes=3, timeout_s=TIMEOUT_S)
        broadcast(group, tensor)
        return group

    def receive(rank):
        own = find_store(store.port, 3, timeout_s=TIMEOUT_S)
        group = join_group(own, rank=rank, num_processes=3, timeout_s=TIMEOUT_S)
        received = torch.zeros_like(tensor)
        broadcast(group, received)
        return received, group

    with ThreadPoolExecutor(3) as pool:
        sent = pool.submit(send)
        received = [pool.submit(receive, rank) for rank in (1, 2)]
        sent.result(timeout=TIMEOUT_S)
        return [each.result(timeout=TIMEOUT_S)[0] for each in received]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("shape", [(3, 5), (1,), ()])
def test_every_receiver_gets_the_bits_that_were_sent(dtype, shape):
    tensor = (100.0 * torch.randn(shape, generator=torch.Generator().manual_seed(0))).to(dtype)
    for received in send_to_two(tensor):
        assert received.dtype == dtype
        assert torch.equal(received, tensor)


def test_a_receiver_that_nobody_sends_to_gives_up():
    store = open_store(2, timeout_s=0.5)
    start_s = time.monotonic()
    with pytest.raises((RuntimeError, dist.DistError)):
        join_group(store, rank=0, num_processes=2, timeout_s=0.5)
    assert time.monotonic() - start_s < 10.0


def test_groups_do_not_meet_on_one_port():
    stores = [open_store(2, timeout_s=1.0) for _ in range(3)]
    assert len({store.port for store in stores}) == 3
