"""Scores become part of what is known of an episode, or are counted as failures."""

from dataclasses import replace

import pytest
from earl_envs import EndReason
from earl_trainer.algorithms.settings import AdvantageSettings
from earl_trainer.algorithms.table import ALGORITHMS
from earl_trainer.experience.estimator import Estimator
from earl_trainer.experience.samples import build_columns
from earl_trainer.rewards.config import RewardConfig
from earl_trainer.rewards.episodes import rewards_of
from earl_trainer.rewards.outcome import (
    Judgement,
    RewardFailure,
    RewardOutcome,
    judgement_metrics,
)
from earl_trainer.rewards.scorer import add_scores


class Fixed:
    """Says what it was told to say, and remembers what it was asked."""

    def __init__(self, *answers, name="fixed", weight=1.0):
        self.name, self.weight = name, weight
        self.answers = [
            RewardOutcome(value=answer) if isinstance(answer, float) else answer
            for answer in answers
        ]
        self.asked = []

    def score(self, episodes):
        self.asked.append(list(episodes))
        return self.answers

    def close(self):
        pass


FAILED = RewardOutcome(failure=RewardFailure.TIMEOUT, detail="slow")


def test_scores_are_added_by_their_weights(make_episode):
    judged = replace(
        make_episode(),
        judgement=Judgement(
            outcomes={"length": RewardOutcome(value=3.0)}, bonus=0.25, parts=(0.25,)
        ),
    )
    scorers = Fixed(1.0, 2.0, weight=0.5), Fixed(-1.0, 4.0, name="other", weight=2.0)
    first, second = add_scores([judged, make_episode()], scorers, on_failure="drop")
    assert first.judgement.bonus == 0.25 + 0.5 - 2.0
    assert first.judgement.parts == (0.25,)
    assert list(first.judgement.outcomes) == ["length", "fixed", "other"]
    assert second.judgement.bonus == 1.0 + 8.0
    assert judgement_metrics([second.judgement])["reward/mean_other"] == 4.0


def test_a_failure_is_marked_and_is_no_score_of_zero(make_episode):
    episodes = [make_episode() for _ in range(3)]
    for broken in (FAILED, float("nan"), float("inf")):
        first, second, _ = add_scores(episodes, [Fixed(1.0, broken, 1.0)], on_failure="drop")
        assert first.judgement.bonus == 1.0
        assert second.judgement.bonus is None
        assert second.judgement.outcomes["fixed"].value is None
        assert second.judgement.detail
        kind = FAILED.failure if broken is FAILED else RewardFailure.ERROR
        assert judgement_metrics([second.judgement])[f"reward/{kind}_failures"] == 1.0
        _, zero, _ = add_scores(episodes, [Fixed(1.0, broken, 1.0)], on_failure="zero")
        assert zero.judgement.bonus == 0.0


def test_a_wrong_number_of_scores_fails_all_of_them(make_episode):
    for answers in ((), (1.0,), (1.0, 2.0, 3.0)):
        judged = add_scores([make_episode(), make_episode()], [Fixed(*answers)], on_failure="drop")
        assert [each.judgement.bonus for each in judged] == [None, None]
        assert f"{len(answers)} rewards for 2 episodes" in judged[0].judgement.detail


def test_what_says_nothing_of_the_policy_is_not_scored(make_episode):
    failed = make_episode(end_reason=EndReason.ENV_ERROR)
    dropped = replace(make_episode(), judgement=Judgement(outcomes={"f": FAILED}, bonus=None))
    scorer = Fixed()
    assert add_scores([failed, dropped], [scorer], on_failure="drop") == [failed, dropped]
    assert not scorer.asked


def test_a_failure_is_left_out_of_the_baseline_of_its_group(make_episode):
    """With 0 in its place the others' advantages would be those of a group of three."""
    episodes = [
        replace(episode, start=replace(episode.start, episode=number))
        for number, episode in enumerate(make_episode(outcome=0.0) for _ in range(3))
    ]
    judged = add_scores(episodes, [Fixed(1.0, FAILED, 3.0)], on_failure="drop")
    summaries = [each.summary for each in judged]
    rewards = rewards_of(summaries, RewardConfig())
    assert rewards == [1.0, None, 3.0]
    estimator = Estimator(ALGORITHMS["grpo"], AdvantageSettings(normalisation="group"), num_seats=2)
    rows = estimator.estimate(build_columns(judged, RewardConfig()), summaries, rewards)
    advantages = rows.per_token["advantages"][rows.per_token["mask"]]
    assert rows.per_row["episode"].tolist() == [0, 2]
    assert sorted(set(advantages.tolist())) == pytest.approx([-1.0, 1.0])
