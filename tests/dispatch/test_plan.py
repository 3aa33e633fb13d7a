from itertools import pairwise
from math import gcd, lcm

import pytest
from earl_dispatch import Layout, Transfer, TransferPlan, plan_transfer
from hypothesis import given, settings
from hypothesis import strategies as st


@st.composite
def layout_fields(draw, num_rows: int) -> dict[str, tuple]:
    ranks = draw(st.permutations(range(draw(st.integers(1, 6)))))
    cuts = sorted(draw(st.sets(st.integers(1, len(ranks) - 1)))) if len(ranks) > 1 else []
    groups = tuple(tuple(ranks[a:b]) for a, b in pairwise([0, *cuts, len(ranks)]))
    owner = st.integers(0, len(groups) - 1)
    owners = draw(st.lists(owner, min_size=num_rows, max_size=num_rows))
    return {"owners": tuple(owners), "groups": groups}


@st.composite
def problems(draw) -> tuple[dict[str, tuple], dict[str, tuple], list[int]]:
    row_bytes = draw(st.lists(st.integers(0, 100), max_size=10))
    return draw(layout_fields(len(row_bytes))), draw(layout_fields(len(row_bytes))), row_bytes


def solve(problem) -> TransferPlan:
    """Plan outside of the strategies: hypothesis forbids `random` there, and beartype uses it."""
    source, target, row_bytes = problem
    return plan_transfer(Layout(**source), Layout(**target), row_bytes=row_bytes)


@settings(deadline=None)
@given(problem=problems())
def test_every_rank_receives_once_exactly_what_it_needs_and_lacks(problem):
    plan = solve(problem)
    for rank in range(plan.num_ranks):
        received = [row for t in plan.transfers if t.target_rank == rank for row in t.rows]
        lacking = set(plan.target.rows_of(rank)) - set(plan.source.rows_of(rank))
        assert sorted(received) == sorted(lacking)
        assert plan.kept_rows(rank) == tuple(sorted(set(plan.target.rows_of(rank)) - lacking))
    for transfer in plan.transfers:
        assert set(transfer.rows) <= set(plan.source.rows_of(transfer.source_rank))


@settings(deadline=None)
@given(problem=problems())
def test_bytes_moved_meet_the_lower_bound(problem):
    plan = solve(problem)
    bound = sum(
        num_bytes * len(set(plan.target.ranks_of(row)) - set(plan.source.ranks_of(row)))
        for row, num_bytes in enumerate(plan.row_bytes)
    )
    assert plan.bytes_moved == plan.bytes_lower_bound == bound
    assert sum(plan.bytes_sent(rank) for rank in range(plan.num_ranks)) == bound
    assert sum(plan.bytes_received(rank) for rank in range(plan.num_ranks)) == bound


@settings(deadline=None)
@given(problem=problems())
def test_two_ranks_exchange_at_most_one_message_each_way(problem):
    plan = solve(problem)
    pairs = [(t.source_rank, t.target_rank) for t in plan.transfers]
    assert pairs == sorted(set(pairs))
    assert all(sender != receiver for sender, receiver in pairs)


@settings(deadline=None)
@given(problem=problems())
def test_replicas_share_the_sending(problem):
    plan = solve(problem)
    for group in plan.source.groups:
        messages = [plan.bytes_of(t) for t in plan.transfers if t.source_rank in group]
        sent = [plan.bytes_sent(rank) for rank in group]
        assert max(sent) - min(sent) <= max(messages, default=0)


@pytest.mark.parametrize(("p", "q"), [(1, 4), (4, 1), (3, 2), (4, 6), (32, 16), (24, 16)])
def test_equal_contiguous_partitions_need_p_plus_q_minus_gcd_messages(p, q):
    num_rows = 2 * lcm(p, q)
    source = Layout.contiguous(num_rows=num_rows, num_ranks=p)
    target = Layout.contiguous(num_rows=num_rows, num_ranks=q)
    apart = Layout(owners=target.owners, groups=tuple((p + rank,) for rank in range(q)))
    assert plan_transfer(source, apart, row_bytes=[1] * num_rows).messages == p + q - gcd(p, q)

    shared = plan_transfer(source, target, row_bytes=[1] * num_rows)
    num_kept = sum(bool(shared.kept_rows(rank)) for rank in range(shared.num_ranks))
    assert shared.messages + num_kept == p + q - gcd(p, q)


def test_a_replica_to_replica_plan_by_hand():
    source = Layout.contiguous(num_rows=4, num_ranks=4, replicas_per_group=2)
    target = Layout.contiguous(num_rows=4, num_ranks=4)
    plan = plan_transfer(source, target, row_bytes=[10, 20, 30, 40])
    # Rows 0 and 1 are on ranks 0 and 1, rows 2 and 3 on ranks 2 and 3, each where it is needed.
    assert plan.transfers == ()
    back = plan_transfer(target, source, row_bytes=[10, 20, 30, 40])
    assert back.transfers == (
        Transfer(source_rank=0, target_rank=1, rows=(0,)),
        Transfer(source_rank=1, target_rank=0, rows=(1,)),
        Transfer(source_rank=2, target_rank=3, rows=(2,)),
        Transfer(source_rank=3, target_rank=2, rows=(3,)),
    )
    assert back.bytes_moved == 100


def test_the_largest_messages_choose_their_replica_first():
    source = Layout(owners=(0, 0, 0), groups=((0, 1),))
    target = Layout(owners=(0, 1, 2), groups=((2,), (3,), (4,)))
    plan = plan_transfer(source, target, row_bytes=[10, 20, 30])
    assert [(t.source_rank, t.target_rank) for t in plan.transfers] == [(0, 4), (1, 2), (1, 3)]
    assert (plan.bytes_sent(0), plan.bytes_sent(1)) == (30, 30)


def test_equal_arguments_give_equal_and_hashable_plans():
    layout = Layout.contiguous(num_rows=4, num_ranks=2)
    swapped = Layout(owners=(1, 1, 0, 0), groups=((0,), (1,)))
    one = plan_transfer(layout, swapped, row_bytes=[1, 2, 3, 4])
    two = plan_transfer(layout, swapped, row_bytes=(1, 2, 3, 4))
    assert one == two
    assert len({one, two}) == 1
    assert one != plan_transfer(layout, swapped, row_bytes=[1, 2, 3, 5])


def test_rows_that_do_not_match_are_refused_with_the_numbers():
    three, four = (Layout.contiguous(num_rows=n, num_ranks=1) for n in (3, 4))
    with pytest.raises(ValueError, match="got 3, 4 and 3"):
        plan_transfer(three, four, row_bytes=[1, 1, 1])
    with pytest.raises(ValueError, match="got 3, 3 and 2"):
        plan_transfer(three, three, row_bytes=[1, 1])
    with pytest.raises(ValueError, match="row_bytes must be >= 0, got -5"):
        plan_transfer(three, three, row_bytes=[1, -5, 1])
