import time
from dataclasses import replace
from pathlib import Path

import pytest
from earl_envs import RandomOpponent
from earl_trainer.phases import RL, WARMUP, plan_phases
from earl_trainer.rewards.config import RewardConfig
from earl_trainer.rewards.setup import make_judge
from earl_trainer.rollout.collection import (
    InlineCollection,
    RolloutRequest,
    join_rollouts,
    split_starts,
)
from earl_trainer.rollout.collector import Collector, Rollout
from earl_trainer.rollout.policies import ScriptedPolicy
from earl_trainer.types import EpisodeStart
from earl_trainer.workers.team import Team

FUNCTIONS = Path(__file__).parents[1] / "rewards" / "functions"


class Recording(Collector):
    """Remembers what it was asked to play."""

    def __init__(self):
        self.asked = []

    def collect(self, policy, starts, *, share_tokens, on_turn, on_episode):
        on_turn(7)
        self.asked.append((policy, starts, share_tokens))
        return Rollout(episodes=[], peak_resident_tokens=5)


def test_it_plays_this_workers_share_of_the_phases_starts(small_config, mute_policy):
    config, policy, said = small_config(), mute_policy, []
    phase = plan_phases(config, {WARMUP: policy, RL: policy})[1]
    collector, team = Recording(), Team(rank=1, num_rollout_workers=2)
    collection = InlineCollection(collector, phase, team, seed=5, num_seats=2)
    rollout = collection.collect(
        RolloutRequest(step=phase.first_step + 1, share_tokens=99, on_turn=said.append)
    )
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
    rollout = collection.collect(RolloutRequest(step=step, max_responses=6))
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


class Slow:
    """Plays at random, half a second for each round."""

    def __init__(self, game, chat):
        self._policy = ScriptedPolicy(RandomOpponent(), game=game, chat=chat)
        self.slept_s = 0.0

    def reply(self, queries):
        time.sleep(0.5)
        self.slept_s += 0.5
        return self._policy.reply(queries)


def test_episodes_are_judged_as_they_end_while_others_are_played(
    small_config, tic_tac_toe, tiny_chat, monkeypatch
):
    monkeypatch.syspath_prepend(FUNCTIONS)
    policy = Slow(tic_tac_toe, tiny_chat)
    config = small_config()
    phase = plan_phases(config, {WARMUP: policy, RL: policy})[1]
    collector = Collector(
        tic_tac_toe,
        game_id=config.env,
        opponent=RandomOpponent(),
        match_opponent=RandomOpponent(),
        chat=tiny_chat,
        max_context_tokens=200,
        max_reply_tokens=4,
    )
    rewards = RewardConfig(functions=("odd_rewards:nap_briefly",))
    judge = make_judge(replace(config, reward=rewards))
    collection = InlineCollection(collector, phase, Team(), seed=5, num_seats=2, judge=judge)
    start_s = time.monotonic()
    rollout = collection.collect(RolloutRequest(step=phase.first_step))
    took_s = time.monotonic() - start_s
    collection.close()
    collection.close()
    judgements = [episode.judgement for episode in rollout.episodes]
    assert [judgement.bonus for judgement in judgements] == [1.0] * 16
    computing_s = sum(each.outcomes["nap_briefly"].took_s for each in judgements)
    playing_s = policy.slept_s
    assert computing_s > 1.5
    # One after the other it would be their sum.
    assert took_s < computing_s + playing_s - 0.25
    assert 0.0 < collection.figures["reward/wait_s"] < computing_s - 0.5
