"""Buffers between all ranks, one after the other."""

import time

import pytest
import torch
import torch.distributed as dist
from earl_dispatch.ring import ring_exchange
from earl_dispatch.testing import run_ranks


def exchange(num_bytes: list[list[int]], group: dist.ProcessGroup | None = None) -> list[list[int]]:
    """Rank `a` sends to rank `b` bytes of value `10 * a + b`."""
    rank, ranks = dist.get_rank(group), range(len(num_bytes))
    outgoing = [
        torch.full((num_bytes[rank][to],), 10 * rank + to, dtype=torch.uint8) for to in ranks
    ]
    received = [torch.empty(num_bytes[source][rank], dtype=torch.uint8) for source in ranks]
    ring_exchange(outgoing, received, rank=rank, group=group, timeout_s=20.0)
    return [part.tolist() for part in received]


def exchange_often(num_bytes: list[list[int]]) -> bool:
    """Mix messages of the same ranks with the exchanges, and let the ranks keep no pace."""
    rank = dist.get_rank()
    other = (rank + 1) % len(num_bytes)
    mine, theirs = torch.tensor([rank]), torch.tensor([-1])
    before = dist.irecv(theirs, (rank - 1) % len(num_bytes))
    results = []
    for number in range(6):
        time.sleep(0.02 * ((rank + number) % 3))
        results.append(exchange(num_bytes))
    dist.isend(mine, other).wait()
    assert before is not None
    before.wait()
    return all(r == results[0] for r in results) and theirs.item() == (rank - 1) % len(num_bytes)


def exchange_in_a_part() -> list[list[int]] | None:
    group = dist.new_group([2, 0])
    if dist.get_rank() == 1:
        return None
    return exchange([[1, 2], [3, 4]], group)


def exchange_without_rank_1() -> float:
    start_s = time.monotonic()
    if dist.get_rank() != 1:
        buffers = [torch.zeros(1, dtype=torch.uint8)] * 3
        with pytest.raises(RuntimeError):
            ring_exchange(
                buffers, [b.clone() for b in buffers], rank=dist.get_rank(), group=None,
                timeout_s=0.5,
            )  # fmt: skip
    return time.monotonic() - start_s


UNEVEN = [[2, 0, 3], [1, 1, 0], [0, 4, 0]]


def test_every_buffer_arrives_whatever_its_size():
    assert run_ranks(3, exchange, UNEVEN) == [
        [[10 * source + rank] * UNEVEN[source][rank] for source in range(3)] for rank in range(3)
    ]


def test_buffers_that_no_socket_holds_do_not_block_one_another():
    size = 3 << 20
    results = run_ranks(2, exchange, [[0, size], [size, 0]])
    assert [len(part) for part in results[0]] == [0, size]
    assert set(results[0][1]) == {10}


def test_exchanges_of_ranks_out_of_step_do_not_mix_with_one_another_or_with_other_messages():
    assert run_ranks(3, exchange_often, UNEVEN) == [True] * 3


def test_ranks_are_those_of_the_group():
    # Rank 0 of the group is rank 0 of all: groups keep the order of their ranks' numbers.
    first, outside, second = run_ranks(3, exchange_in_a_part)
    assert (first, outside, second) == ([[0], [10] * 3], None, [[1] * 2, [11] * 4])


def test_nobody_waits_longer_than_the_limit_for_a_rank_that_stays_away():
    for rank, waited_s in enumerate(run_ranks(3, exchange_without_rank_1)):
        assert rank == 1 or 0.4 < waited_s < 5.0
