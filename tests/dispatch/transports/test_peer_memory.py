import os
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from earl_dispatch.testing import run_ranks
from earl_dispatch.transports import peer_memory
from earl_dispatch.transports.peer_memory import Peer, empty_tensor, new_token, read_memory
from hypothesis import given
from hypothesis import strategies as st


def read_the_other() -> list[int] | None:
    rank = dist.get_rank()
    tensor, token = torch.arange(10) + 100 * rank, new_token()
    peers: list[Peer | None] = [None] * 2
    dist.all_gather_object(peers, Peer.of_this_process([tensor], token))
    other = peers[1 - rank]
    assert isinstance(other, Peer)
    if not other.can_be_read():
        return None
    own = torch.zeros(4, dtype=torch.int64)
    read_memory(
        other.pid,
        [
            (own.data_ptr() + 8, other.addresses[0] + 16, 16),
            (own.data_ptr(), other.addresses[0], 8),
        ],
    )
    dist.barrier()
    return own.tolist()


def test_pieces_of_another_process_are_read_where_they_are():
    results = run_ranks(2, read_the_other)
    if None in results:
        pytest.skip("the system lets no process read another")
    assert results == [[100, 102, 103, 0], [0, 2, 3, 0]]


def test_a_process_is_read_only_if_it_is_the_one_that_is_meant():
    token = new_token()
    peer = Peer.of_this_process([token, torch.ones(2)], token)
    assert Peer.decode(peer.encode()) == peer
    if not peer.can_be_read():
        pytest.skip("the system lets no process read another")
    assert not replace(peer, token=bytes(16)).can_be_read()
    assert not replace(peer, token_address=64).can_be_read()
    assert not replace(peer, pid=2**22 + 1).can_be_read()


def test_what_cannot_be_read_is_an_error():
    own = torch.zeros(1, dtype=torch.int64)
    with pytest.raises(OSError, match="cannot read process"):
        read_memory(os.getpid(), [(own.data_ptr(), 64, 8)])


@given(
    sizes=st.lists(st.integers(1, 40), max_size=12),
    max_runs=st.integers(1, 5),
    max_bytes=st.integers(1, 50),
)
def test_all_bytes_are_read_in_whatever_batches_the_kernel_takes(sizes, max_runs, max_bytes):
    source = torch.randint(256, (sum(sizes),)).to(torch.uint8)
    target = torch.zeros_like(source)
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    runs = [
        (target.data_ptr() + start, source.data_ptr() + start, size)
        for start, size in zip(starts, sizes, strict=True)
    ]
    before = peer_memory._MAX_RUNS, peer_memory._MAX_BYTES
    peer_memory._MAX_RUNS, peer_memory._MAX_BYTES = max_runs, max_bytes
    try:
        pieces = [piece for run in runs for piece in peer_memory._split(run)]
        for batch in peer_memory._batches(pieces):
            assert len(batch) <= max_runs
            assert sum(size for _, _, size in batch) <= max_bytes
        read_memory(os.getpid(), runs)
    finally:
        peer_memory._MAX_RUNS, peer_memory._MAX_BYTES = before
    assert target.equal(source)


@pytest.mark.parametrize("size", [0, 1000, 3 << 20])
def test_new_memory_is_an_ordinary_tensor(size):
    tensor = empty_tensor(torch.int32, size)
    assert tensor.fill_(7).sum() == 7 * size
