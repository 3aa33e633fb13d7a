import os
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from earl_dispatch.link import Link
from earl_dispatch.testing import run_ranks


def buffer(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.uint8)


def exchange_sizes() -> list[list[int]]:
    """Rank `a` sends to rank `b` as many bytes as `a * b`, each of value `10 * a + b`."""
    link = Link.open(None, timeout_s=20.0)
    outgoing = [buffer([10 * link.rank + b] * (link.rank * b)) for b in range(link.num_ranks)]
    received = link.exchange(outgoing, [a * link.rank for a in range(link.num_ranks)])
    return [part.tolist() for part in received]


def exchange_without_rank_1() -> tuple[float, str]:
    link = Link.open(None, timeout_s=0.5)
    if link.rank == 1:
        return 0.0, ""
    start_s = time.monotonic()
    with pytest.raises(RuntimeError, match="exchange") as refused:
        link.exchange([buffer([1])] * 3, [1] * 3)
    return time.monotonic() - start_s, str(refused.value)


def exchange_two_at_a_time() -> list[list[list[int]]]:
    link = Link.open(None, timeout_s=20.0)
    first, second = (link.start([buffer([value, link.rank])] * 2, [2, 2]) for value in (1, 2))
    return [[part.tolist() for part in exchange.wait()] for exchange in (second, first)]


def add_up() -> list[float]:
    link = Link.open(None, timeout_s=20.0)
    mine = torch.tensor([1.0, float(link.rank)], dtype=torch.float64)
    total = link.sum(mine)
    assert mine.tolist() == [1.0, float(link.rank)]
    return total.tolist()


def test_exchanges_may_overlap_and_be_awaited_in_any_order():
    assert run_ranks(2, exchange_two_at_a_time) == [[[[2, 0], [2, 1]], [[1, 0], [1, 1]]]] * 2


def test_values_are_added_up_over_ranks_beside_the_callers_own():
    assert run_ranks(3, add_up) == [[3.0, 3.0]] * 3


def test_buffers_of_any_size_reach_the_rank_they_are_for():
    assert run_ranks(3, exchange_sizes) == [
        [[], [], []],
        [[], [11], [21, 21]],
        [[], [12, 12], [22, 22, 22, 22]],
    ]


def test_the_others_do_not_wait_for_a_missing_rank_beyond_the_timeout():
    for rank, (waited_s, message) in enumerate(run_ranks(3, exchange_without_rank_1)):
        if rank != 1:
            assert 0.4 < waited_s < 5.0
            assert f"rank {rank}: exchange with 3 ranks failed or took longer than 0.5 s" in message
            assert "no answer from rank 1;" in message


def lose_rank_1_in_a_group_of(backend: str, rendezvous: str) -> float:
    """Return how long rank 2 waits for rank 0, which is to hear from the lost one first."""
    rank = dist.get_rank()
    dist.destroy_process_group()
    dist.init_process_group(
        backend,
        init_method=rendezvous,
        rank=rank,
        world_size=3,
        timeout=timedelta(seconds=30),
    )
    link = Link.open(None, timeout_s=20.0)
    link.exchange([buffer([1])] * 3, [1] * 3)
    if rank == 1:
        os._exit(3)
    start_s = time.monotonic()
    with pytest.raises(RuntimeError, match="no answer from rank 1;"):
        link.start([buffer([])] * 3, [0, 1, 0] if rank == 0 else [1, 0, 0]).wait()
    return time.monotonic() - start_s


@pytest.mark.parametrize("backend", ["gloo", "cpu:gloo"])
def test_who_gives_up_hangs_up_so_that_nobody_waits_for_it(backend, tmp_path):
    rendezvous = (tmp_path / "second").as_uri()
    waited_s = run_ranks(3, lose_rank_1_in_a_group_of, backend, rendezvous, may_die=[1])
    assert waited_s[2] < 10.0


def test_a_process_on_its_own_exchanges_with_itself():
    link = Link.open(None, timeout_s=1.0)
    assert (link.rank, link.num_ranks) == (0, 1)
    assert [part.tolist() for part in link.exchange([buffer([1, 2])], [2])] == [[1, 2]]
    assert link.sum(torch.tensor([2.0], dtype=torch.float64)).tolist() == [2.0]
