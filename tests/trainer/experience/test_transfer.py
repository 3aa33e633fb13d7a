"""Samples go from whoever prepared them to whoever learns from them."""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from earl_dispatch import Columns, Layout, RowSizes, plan_transfer
from earl_dispatch.testing import run_ranks
from earl_trainer.experience.minibatches import shuffle_minibatches
from earl_trainer.experience.transfer import LearnerFeed, spread_minibatches
from earl_trainer.workers.group import Group
from earl_trainer.workers.team import Team
from hypothesis import given, settings
from hypothesis import strategies as st

LENGTHS = [5, 9, 2, 7, 3, 8, 4, 6]


def feed_of(team, *, transport="local", num_minibatches=2, num_epochs=1):
    return LearnerFeed(
        team,
        transport=transport,
        num_minibatches=num_minibatches,
        num_epochs=num_epochs,
        timeout_s=20.0,
    )


def same(left, right):
    return left.schema() == right.schema() and all(
        torch.equal(dict(theirs)[name], dict(mine)[name])
        for mine, theirs in ((left.per_token, right.per_token), (left.per_row, right.per_row))
        for name in mine
    )


def test_one_worker_keeps_every_row_as_it_was_and_nothing_moves(make_rows):
    rows = make_rows([5, 9, 2, 7])
    delivery = feed_of(Team()).send(rows, seed=3)
    assert delivery.plan.bytes_moved == delivery.plan.messages == 0
    assert delivery.floor_s == 0.0
    assert same(delivery.batch, rows)
    (minibatches,) = shuffle_minibatches(4, num_minibatches=2, num_epochs=1, seed=3)
    assert all(map(torch.equal, delivery.minibatches, minibatches))


def send_on_every_rank(rows, num_rollout_workers, num_learner_workers, transport):
    rank = dist.get_rank()
    team = Team(
        rank=rank,
        num_rollout_workers=num_rollout_workers,
        num_learner_workers=num_learner_workers,
    )
    team.everyone = Group(rank=rank, size=team.size, process_group=dist.group.WORLD)
    first, end = (
        min(number, num_rollout_workers) * len(LENGTHS) // num_rollout_workers
        for number in (rank, rank + 1)
    )
    delivery = feed_of(team, transport=transport, num_epochs=2).send(
        rows.select(range(first, end)), seed=3
    )
    return (
        delivery.batch,
        [part.tolist() for part in delivery.minibatches],
        (delivery.plan.bytes_moved, delivery.plan.bytes_lower_bound),
        (delivery.transfer_s, delivery.floor_s),
    )


@pytest.mark.parametrize(
    ("players", "learners", "transport"),
    [
        (3, 2, "all_to_all"),
        (2, 3, "shared_memory"),
        (1, 3, "gather_scatter"),
        (3, 1, "shared_memory"),
    ],
)
def test_every_update_sees_the_rows_that_one_worker_would_see(
    make_rows, players, learners, transport
):
    rows = make_rows(LENGTHS)
    alone = feed_of(Team(), num_epochs=2).send(rows, seed=3)
    results = run_ranks(3, send_on_every_rank, rows, players, learners, transport, timeout_s=180.0)
    for number, expected in enumerate(alone.minibatches):
        seen = [batch.select(parts[number]) for batch, parts, _, _ in results]
        episodes = torch.cat([part.per_row["episode"] for part in seen])
        found = Columns.concat(seen).select(episodes.argsort().tolist())
        assert same(found, rows.select(expected.sort().values.tolist()))
    for rank, (batch, _, (moved, bound), (transfer_s, floor_s)) in enumerate(results):
        assert bool(batch.num_rows) == (rank < learners)
        assert moved == bound > 0
        assert transfer_s > 0.0
        assert floor_s > 0.0


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=24),
    num_players=st.integers(1, 4),
    num_learners=st.integers(1, 4),
    num_minibatches=st.integers(1, 3),
)
def test_every_minibatch_is_balanced_up_to_a_row(
    lengths, num_players, num_learners, num_minibatches
):
    source = Layout.contiguous(num_rows=len(lengths), num_ranks=num_players)
    sizes = RowSizes(
        lengths=tuple(lengths),
        turns=(0,) * len(lengths),
        token_bytes=4,
        num_bit_columns=0,
        turn_bytes=0,
        value_bytes=0,
    )
    (minibatches,) = shuffle_minibatches(
        len(lengths), num_minibatches=num_minibatches, num_epochs=1, seed=0
    )
    target, bytes_minimum = spread_minibatches(
        source,
        sizes,
        minibatches,
        num_workers=num_learners,
        team_size=max(num_players, num_learners),
    )
    for rows in minibatches:
        tokens = [
            sum(lengths[row] for row in rows.tolist() if target.owners[row] == rank)
            for rank in range(num_learners)
        ]
        assert max(tokens) - min(tokens) <= 2 * max(lengths)
    moved = plan_transfer(source, target, sizes=sizes).bytes_moved
    # Rows are whole: each worker may be off its share by one, of every mini-batch.
    slack = 4 * max(lengths) * max(num_players, num_learners) * len(minibatches)
    assert bytes_minimum <= moved + slack
    assert moved <= bytes_minimum + slack
    if num_players == num_learners == 1:
        assert target == replace(source, groups=target.groups)
        assert moved == bytes_minimum == 0
