import pytest
from earl_trainer.phases import RL, WARMUP, plan_phases
from earl_trainer.rollout.collection import InlineCollection, join_rollouts, split_starts
from earl_trainer.rollout.collector import Collector, Rollout
from earl_trainer.types import EpisodeStart
from earl_trainer.workers.team import Team


class Recording(Collector):
    """Remembers what it was asked to play."""

    def __init__(self):
        self.asked = []

    def collect(self, policy, starts, *, share_tokens, on_turn):
        on_turn(7)
        self.asked.append((policy, starts, share_tokens))
        return Rollout(episodes=[], peak_resident_tokens=5)


def test_it_plays_this_workers_share_of_the_phases_starts(small_config, mute_policy):
    config, policy, said = small_config(), mute_policy, []
    phase = plan_phases(config, {WARMUP: policy, RL: policy})[1]
    collector, team = Recording(), Team(rank=1, num_rollout_workers=2)
    collection = InlineCollection(collector, phase, team, seed=5, num_seats=2)
    rollout = collection.collect(phase.first_step + 1, share_tokens=99, on_turn=said.append)
    starts = phase.starts(5, phase.first_step + 1, num_seats=2)
    assert rollout.peak_resident_tokens == 5
    assert collector.asked == [(policy, starts[len(starts) // 2 :], 99)]
    assert said == ["7 games running"]
    assert collection.to_dict() == {}


def test_no_more_than_so_many_contexts_are_played_at_once(small_config, mute_policy):
    phase = plan_phases(small_config(), {WARMUP: mute_policy, RL: mute_policy})[1]
    collector = Recording()
    collection = InlineCollection(collector, phase, Team(), seed=5, num_seats=2)
    step = phase.first_step
    rollout = collection.collect(
        step, share_tokens=None, max_responses=6, on_turn=lambda text: None
    )
    parts = [starts for _, starts, _ in collector.asked]
    assert [len(part) for part in parts] == [6, 6, 4]
    assert [start for part in parts for start in part] == phase.starts(5, step, num_seats=2)
    assert rollout.peak_resident_tokens == 3 * 5


def starts_of(*tables):
    return [
        EpisodeStart(
            episode=episode, table=table, group=0, seat=episode % 2, game_seed=0, reply_seed=episode
        )
        for episode, table in enumerate(tables)
    ]


@pytest.mark.parametrize(
    ("most", "lengths"), [(None, [6]), (1, [2, 2, 2]), (3, [2, 2, 2]), (4, [4, 2]), (9, [6])]
)
def test_seats_of_one_table_are_played_together(most, lengths):
    starts = starts_of(0, 0, 1, 1, 2, 2)
    parts = split_starts(starts, most)
    assert [len(part) for part in parts] == lengths
    assert [start for part in parts for start in part] == starts
    assert split_starts([], most) == [[]]


def test_parts_are_one_rollout_with_the_tokens_that_all_would_have_held():
    rollouts = [Rollout(episodes=[], peak_resident_tokens=tokens) for tokens in (3, 4)]
    assert join_rollouts(rollouts).peak_resident_tokens == 7
