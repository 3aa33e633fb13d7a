"""Levels are drawn for groups, played, and judged by how they end."""

from dataclasses import replace

import pytest
from earl_envs import EndReason
from earl_trainer.experience.curriculum import Curriculum, CurriculumRules, LevelTally
from earl_trainer.experience.curriculum_collection import CurriculumCollection, LevelPlayer
from earl_trainer.phases import RL, WARMUP, plan_phases
from earl_trainer.rollout.collection import InlineCollection, RolloutRequest
from earl_trainer.rollout.collector import Rollout
from earl_trainer.workers.group import ALONE
from earl_trainer.workers.team import Team

RULES = CurriculumRules(
    fractions=(0.2, 0.6, 0.2),
    easy_from=0.9,
    hard_below=0.1,
    promote_from=0.7,
    promote_games=8,
    memory=0.5,
)


class Winning:
    """Wins or loses every game that it is asked to play."""

    def __init__(self, make_episode, outcome):
        self.make_episode = make_episode
        self.outcome = outcome
        self.asked = []

    def collect(self, policy, starts, *, share_tokens, on_turn, on_episode):
        self.asked.extend(starts)
        episodes = [
            replace(self.make_episode(outcome=self.outcome), start=start) for start in starts
        ]
        return Rollout(episodes=episodes, peak_resident_tokens=len(starts))


@pytest.fixture
def levels(make_episode):
    def make(*, num_open=2):
        players = {
            "random": Winning(make_episode, 1.0),
            "negamax:2": Winning(make_episode, -1.0),
            "negamax:4": Winning(make_episode, 0.0),
        }
        curriculum = replace(Curriculum.begin(RULES, num_levels=3), num_open=num_open)
        return players, LevelPlayer(players, curriculum)

    return make


@pytest.fixture
def phase(small_config, mute_policy):
    config = small_config({"rollout": {"num_episodes": 64}})
    return plan_phases(config, {WARMUP: mute_policy, RL: mute_policy})[1]


def test_every_episode_is_played_once_and_a_group_at_one_level(levels, phase):
    players, player = levels()
    starts = phase.starts(0, phase.first_step, num_seats=2)
    rollout = player.collect(phase.policy, starts)
    assert [each.start.episode for each in rollout.episodes] == [s.episode for s in starts]
    by_group = {}
    for episode in rollout.episodes:
        by_group.setdefault(episode.start.group, set()).add(episode.start.level)
    assert {len(names) for names in by_group.values()} == {1}
    assert players["random"].asked
    assert players["negamax:2"].asked
    assert not players["negamax:4"].asked
    assert rollout.peak_resident_tokens == len(starts)
    # Whoever plays a part of a group draws the same level.
    part = player.collect(phase.policy, starts[5:7]).episodes
    assert part == rollout.episodes[5:7]


def test_results_open_levels_and_are_reported_and_kept(levels, phase):
    players, player = levels(num_open=1)
    notes = []
    inline = InlineCollection(player, phase, Team(), seed=0, num_seats=2)
    collection = CurriculumCollection(inline, player, ALONE, notes.append)
    collection.collect(RolloutRequest(step=phase.first_step))
    assert len(players["random"].asked) == 64
    assert collection.figures == {
        "curriculum/open_levels": 2.0,
        "curriculum/games_1": 64.0,
        "curriculum/success_1": 1.0,
        "curriculum/games_2": 0.0,
    }
    kept = collection.to_dict()["curriculum"]
    assert notes == []

    collection.collect(RolloutRequest(step=phase.first_step + 1))
    assert notes == [
        "curriculum: level 2 opens, negamax:2, as success at level 1 is 1.00, at least 0.7, after "
        "64 games"
    ]
    assert Curriculum.from_dict(RULES, kept) == player.curriculum
    after = collection.to_dict()["curriculum"]["tallies"]
    assert sum(num_games for _, _, num_games in after) == 128


def test_rounds_of_one_step_count_once_and_open_nothing_on_the_way(levels, phase):
    players, player = levels(num_open=1)
    inline = InlineCollection(player, phase, Team(), seed=0, num_seats=2)
    collection = CurriculumCollection(inline, player, ALONE, lambda note: None)
    step = phase.first_step
    before = player.curriculum
    collection.collect(RolloutRequest(step=step))
    for seed in (1, 2):
        more = phase.starts(seed, step, num_seats=2)
        collection.collect(RolloutRequest(step=step, starts=more))
    # All three rounds were played at the level that was open when the step began.
    assert player.curriculum == before
    assert len(players["random"].asked) == 3 * 64
    assert not players["negamax:2"].asked
    # 192 wins of one step: none of them is older than another.
    kept = Curriculum.from_dict(RULES, collection.to_dict()["curriculum"])
    assert kept.num_open == 2
    assert kept.tallies[0] == LevelTally(games=192.0, points=192.0, num_games=192)


def test_games_that_were_cut_or_failed_say_nothing_of_a_level(levels, make_episode):
    _, player = levels()
    ends = [
        (1.0, EndReason.FINISHED),
        (0.0, EndReason.FINISHED),
        (-1.0, EndReason.ILLEGAL_MOVE),
        (-1.0, EndReason.UNPARSABLE),
    ]
    unfinished = [(0.0, EndReason.CONTEXT_LIMIT), (0.0, EndReason.OPPONENT_ERROR)]
    episodes = [
        replace(episode, start=replace(episode.start, level="negamax:2"))
        for episode in (make_episode(games=ends), make_episode(games=unfinished))
    ]
    assert player.results(episodes) == [(1, 1.0), (1, 0.5), (1, 0.0), (1, 0.0)]
