from collections import defaultdict

import pytest
from earl_dispatch import Layout, RowSizes, execute_local, plan_transfer
from earl_dispatch.chunked import buffer_problem, largest_buffer, limit_buffers, limit_like
from earl_dispatch.testing import assert_same_bits, chunk_of_columns, random_problem
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32), limit=st.integers(1, 300))
def test_smaller_rounds_move_the_same_bytes_to_the_same_places(seed, limit):
    batch, source, target, hosts = random_problem(seed)
    plan = plan_transfer(source, target, sizes=RowSizes.of_columns(batch), hosts=hosts)
    limited = limit_buffers(plan, limit)
    assert limited.bytes_moved == plan.bytes_moved
    held = [chunk_of_columns(batch, source, rank) for rank in range(plan.num_ranks)]
    for rank, received in enumerate(execute_local(limited, held)):
        assert_same_bits(received, chunk_of_columns(batch, target, rank))


def test_a_round_fits_the_buffer_up_to_a_row_of_each_message(weigh):
    source = Layout.contiguous(num_rows=64, num_ranks=2)
    target = Layout(owners=(2, 3) * 32, groups=((0,), (1,), (2,), (3,)))
    plan = limit_buffers(plan_transfer(source, target, sizes=weigh([10] * 64)), 100)
    for transfers in plan.rounds:
        sent = defaultdict(int)
        for transfer in transfers:
            sent[transfer.source_rank] += plan.bytes_of(transfer)
        assert max(sent.values()) <= 100 + 2 * 10
    assert len(plan.rounds) == 4


def test_a_plan_that_fits_stays_as_it_is(weigh):
    source = Layout.contiguous(num_rows=4, num_ranks=2)
    target = Layout(owners=source.owners[::-1], groups=source.groups)
    plan = plan_transfer(source, target, sizes=weigh([10] * 4))
    assert limit_buffers(plan, 20).rounds == plan.rounds


def test_a_plan_in_place_of_a_limited_one_is_cut_too(weigh):
    source = Layout.contiguous(num_rows=64, num_ranks=2)
    target = Layout(owners=source.owners[::-1], groups=source.groups)
    everything = Layout.contiguous(num_rows=64, num_ranks=1)
    plan = plan_transfer(source, target, sizes=weigh([10] * 64))
    central = plan_transfer(source, everything, sizes=plan.sizes)
    assert limit_like(central, plan) is central
    limited = limit_like(central, limit_buffers(plan, 100))
    assert [largest_buffer(limited, transfers) for transfers in limited.rounds] == [80] * 4
    assert limited.bytes_moved == central.bytes_moved == 320


def test_a_buffer_of_nothing_is_refused(weigh):
    layout = Layout.contiguous(num_rows=1, num_ranks=1)
    plan = plan_transfer(layout, layout, sizes=weigh([1]))
    with pytest.raises(ValueError, match="max_buffer_bytes must be >= 1, got 0"):
        limit_buffers(plan, 0)
    assert buffer_problem(-1) == "max_buffer_bytes must be >= 1, got -1"
    assert buffer_problem(1) == buffer_problem(None) == ""
