"""Who plays what, and whose weights count."""

import tempfile

import torch
import torch.distributed as dist
from earl_dispatch.testing import run_ranks
from earl_trainer.rollout.starts import grouped_starts, self_play_starts
from earl_trainer.workers.group import ALONE
from earl_trainer.workers.team import Team
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn


@settings(derandomize=True, max_examples=60, deadline=None)
@given(num_players=st.integers(1, 6), num_learners=st.integers(1, 6), num_tables=st.integers(6, 20))
def test_players_share_the_tables_in_order_and_about_equally(num_players, num_learners, num_tables):
    starts = self_play_starts(0, step=0, num_episodes=2 * num_tables, group_size=1, num_seats=2)
    shares = [
        Team(rank=rank, num_rollout_workers=num_players, num_learner_workers=num_learners).share(
            starts
        )
        for rank in range(max(num_players, num_learners))
    ]
    assert [start for share in shares for start in share] == starts
    assert not any(shares[num_players:])
    sizes = [len({start.table for start in share}) for share in shares[:num_players]]
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == num_tables, "seats of a table stay together"


def test_one_worker_plays_everything():
    starts = grouped_starts(0, step=0, num_episodes=8, group_size=4, num_seats=2)
    team = Team()
    assert team.share(starts) == starts
    assert team.is_first
    assert team.learns
    assert team.size == 1


def connect_on_every_rank(folder):
    rank = dist.get_rank()
    dist.destroy_process_group()
    team = Team(rank=rank, num_rollout_workers=3, num_learner_workers=2)
    team.connect(dist.FileStore(f"{folder}/store", 3), timeout_s=20.0)
    model = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(float(rank))
    team.publish(model)
    found = (team.everyone.size, team.players.size, team.learners.size, team.learns)
    team.disconnect()
    assert not dist.is_initialized()
    assert team.everyone is team.players is team.learners is ALONE
    return found, model.weight.tolist()


def test_who_does_not_learn_gets_the_weights_of_the_first():
    with tempfile.TemporaryDirectory() as folder:
        results = run_ranks(3, connect_on_every_rank, folder)
    assert [found for found, _ in results] == [
        (3, 3, 2, True),
        (3, 3, 2, True),
        (3, 3, 1, False),
    ]
    assert [weights for _, weights in results] == [[[0.0, 0.0]]] * 3
