import os
import time

import pytest
import torch
import torch.distributed as dist
from earl_dispatch import Columns
from earl_dispatch.testing import assert_same_bits, random_problem, run_ranks


def rank_plus(number: int) -> int:
    return dist.get_rank() + number


def fail_on_rank_1() -> None:
    if dist.get_rank() == 1:
        raise KeyError("lost")


def die_on_rank_1() -> None:
    if dist.get_rank() == 1:
        os._exit(3)
    time.sleep(60)


def die_at_once_on_rank_1() -> int:
    if dist.get_rank() == 1:
        os._exit(3)
    return dist.get_rank()


def sleep_on_rank_1() -> None:
    if dist.get_rank() == 1:
        time.sleep(60)


def test_each_rank_runs_the_function_and_returns_its_result():
    assert run_ranks(2, rank_plus, 5) == [5, 6]


def test_a_failing_rank_is_raised_with_its_traceback():
    with pytest.raises(RuntimeError, match=r"(?s)rank 1 failed:.*fail_on_rank_1.*KeyError: 'lost'"):
        run_ranks(2, fail_on_rank_1)


def test_a_dead_rank_is_named_without_waiting_for_the_others():
    with pytest.raises(RuntimeError, match="rank 1 died without a result"):
        run_ranks(2, die_on_rank_1)


def test_a_death_that_is_part_of_the_test_leaves_the_others_their_results():
    assert run_ranks(2, die_at_once_on_rank_1, may_die=[1]) == [0, None]


def test_a_rank_that_takes_too_long_is_named():
    with pytest.raises(TimeoutError, match=r"no result in 1\.5 s from rank \[.*1\]"):
        run_ranks(2, sleep_on_rank_1, timeout_s=1.5)


def test_nans_of_different_payload_are_not_the_same_bits():
    one, two = (
        Columns(
            lengths=torch.tensor([1]),
            per_token={"x": torch.tensor([bits], dtype=torch.int32).view(torch.float32)},
            per_row={},
        )
        for bits in (0x7FC00001, 0x7FC00002)
    )
    assert_same_bits(one, one)
    with pytest.raises(AssertionError, match="x"):
        assert_same_bits(one, two)


def test_random_problems_stay_within_their_ranks_and_have_all_there_is():
    problems = [random_problem(seed, max_ranks=5) for seed in range(200)]
    layouts = [layout for _, *pair, _ in problems for layout in pair]
    assert {layout.num_ranks for layout in layouts} == set(range(1, 6))
    assert {layout.num_chunks for layout in layouts} == {1, 2, 3}
    assert any(len(layout.replicas(0, 0)) > 1 for layout in layouts)
    assert any(batch.num_rows == 0 for batch, *_ in problems)
    assert any(set(hosts.of) == {0, 1, 2} for *_, hosts in problems)
    assert max(layout.num_ranks for s in range(200) for layout in random_problem(s)[1:3]) > 10


def test_a_random_problem_follows_from_its_seed():
    (one, *places), (two, *others) = random_problem(7), random_problem(7)
    assert_same_bits(one, two)
    assert places == others
    assert places != list(random_problem(8)[1:])
