import time

import pytest
import torch
import torch.distributed as dist
from earl_dispatch import (
    Columns,
    Layout,
    RowSizes,
    TransferPlan,
    dispatch,
    plan_transfer,
    start_dispatch,
)
from earl_dispatch.testing import assert_same_bits, chunk_of_columns, random_columns, run_ranks

LENGTHS = (3, 0, 5, 1, 4, 4, 0, 2, 6)
SOURCE = Layout.contiguous(num_rows=9, num_ranks=3)
TARGET = Layout(owners=(2, 1, 0) * 3, groups=SOURCE.groups)
ALONE = Layout.contiguous(num_rows=9, num_ranks=1)


def make_batch() -> Columns:
    return random_columns(LENGTHS, torch.Generator().manual_seed(2))


def make_plan(source: Layout, target: Layout) -> TransferPlan:
    return plan_transfer(source, target, sizes=RowSizes.of_columns(make_batch()))


def dispatch_beside_collectives() -> Columns:
    rank = dist.get_rank()
    own = dist.new_group([0, 1, 2])
    assert isinstance(own, dist.ProcessGroup)
    held = chunk_of_columns(make_batch(), SOURCE, rank)
    plan = make_plan(SOURCE, TARGET)
    # Ranks begin at different times, and use the default group in the meantime.
    time.sleep(0.1 * rank)
    pending = start_dispatch(plan, held, transport="all_to_all", group=own, timeout_s=20.0)
    for _ in range(20):
        ones = torch.ones(1)
        dist.all_reduce(ones)
        assert ones.item() == 3.0
    received = pending.wait(20.0)
    assert pending.done
    assert_same_bits(pending.wait(0.0), received)
    assert_same_bits(received, dispatch(plan, held, transport="all_to_all", group=own))
    with pytest.raises(ValueError, match="needs a group of its own, got None"):
        start_dispatch(plan, held, transport="all_to_all", group=None)
    return received


def dispatch_without_rank_1() -> str:
    rank = dist.get_rank()
    if rank == 1:
        return ""
    held = chunk_of_columns(make_batch(), SOURCE, rank)
    pending = start_dispatch(
        make_plan(SOURCE, TARGET),
        held,
        transport="all_to_all",
        group=dist.group.WORLD,
        timeout_s=1.0,
    )
    with pytest.raises(TimeoutError, match=r"the dispatch is not done after 0\.05 s"):
        pending.wait(0.05)
    assert not pending.done
    with pytest.raises(RuntimeError) as broken:
        pending.wait(20.0)
    return str(broken.value)


def test_a_dispatch_beside_other_work_gives_what_dispatch_gives():
    for rank, received in enumerate(run_ranks(3, dispatch_beside_collectives)):
        assert_same_bits(received, chunk_of_columns(make_batch(), TARGET, rank))


def test_what_goes_wrong_is_raised_to_who_waits():
    messages = run_ranks(3, dispatch_without_rank_1)
    assert all("no answer from rank 1" in messages[rank] for rank in (0, 2))


def test_one_process_needs_no_group():
    batch, plan = make_batch(), make_plan(ALONE, ALONE)
    pending = start_dispatch(plan, batch, transport="local", group=None)
    assert_same_bits(pending.wait(20.0), batch)
    refused = start_dispatch(plan, batch.select([0]), transport="local", group=None)
    with pytest.raises(ValueError, match="rank 0 passes 1 rows"):
        refused.wait(20.0)
