"""One step's outcome becomes one report and one record."""

import json
from dataclasses import replace
from math import inf

import pytest
from earl_selector import Alternative, Decision, Inputs, SelectorState
from earl_trainer.experience.samples import build_columns
from earl_trainer.experience.transfer import LearnerFeed
from earl_trainer.rewards.config import RewardConfig
from earl_trainer.rewards.function import parse_functions, weigh
from earl_trainer.rewards.outcome import RewardFailure, RewardOutcome
from earl_trainer.rollout.choice import Choice
from earl_trainer.rollout.drift import Drift
from earl_trainer.rollout.switch import Switch
from earl_trainer.tracking.metrics import StageClock, TokenCounts
from earl_trainer.tracking.step import StepOutcome, StepShare
from earl_trainer.workers.team import Team

A = parse_functions(["rewards:a"])


@pytest.fixture
def outcome(make_episode, make_turn):
    episodes = [
        make_episode(outcome=1.0, turns=[make_turn([1, 2], [3]), make_turn([1, 2, 3, 4], [5, 6])]),
        make_episode(outcome=-1.0, turns=[make_turn([1, 2], [3, 4])]),
    ]
    columns = build_columns(episodes, RewardConfig())
    feed = LearnerFeed(Team(), transport="local", num_minibatches=1, num_epochs=1, timeout_s=5.0)
    shares = [
        StepShare(
            episodes=[episode.summary],
            rewards=[reward],
            peak_resident_tokens=resident_tokens,
            counts=TokenCounts.of(columns.select([row]), 9),
            num_emitted=4 - row,
            num_prefix_breaks=2 + row,
            seconds={"rollout": 2.0 - row, "prepare": 0.5 + 0.5 * row, "update": 4.0},
        )
        for row, (episode, reward, resident_tokens) in enumerate(
            zip(episodes, [1.0, -1.5], [8, 5], strict=True)
        )
    ]
    return StepOutcome(
        step=9,
        phase="rl",
        lr=0.25,
        shares=shares,
        choice=Choice(
            decision=Decision(
                tp=1,
                previous_tp=None,
                reason="start",
                forecast_tokens=100,
                capacity_tokens=200,
                feasible=(1,),
                steps_to_limit=None,
            ),
            selector=SelectorState(tp=1, reports=()),
            switch=None,
            share_tokens=None,
        ),
        collected={"async/wait_s": 0.25},
        prepared={"selector/prepare_tp": 2.0},
        delivery=feed.send(columns, seed=0),
        updates={"kl": 0.5},
        clock=StageClock({"rollout": 2.0, "prepare": 0.5, "update": 4.0}),
    )


def test_the_selector_is_told_of_context_lengths_and_of_what_was_resident(outcome):
    report = outcome.report()

    # Of the worker whose engine held the most: what an engine holds and plays belongs together.
    assert (report.step, report.num_responses) == (9, 1)
    assert (report.mean_context_tokens, report.max_context_tokens) == (6.0, 6)
    assert report.resident_tokens == 8
    # The slowest worker's, as all wait for it.
    assert (report.rollout_s, report.switch_s) == (2.0, None)


def test_the_record_gathers_every_stage(outcome):
    record = outcome.record()

    assert (record.step, record.phase, record.decision) == (9, "rl", "start")
    expected = {
        "reward/mean": -0.25,
        "game/win_rate": 0.5,
        "context/mean_tokens": 5.0,
        "context/resident_tokens": 8.0,
        "context/prefix_breaks": 5.0,
        "selector/tp": 1.0,
        "selector/queued": 0.0,
        "selector/prepare_tp": 2.0,
        "dispatch/rows": 2.0,
        "dispatch/bytes_moved": 0.0,
        "policy/kl": 0.5,
        "policy/lr": 0.25,
        "tokens/generated": 7.0,
        "tokens/trained": 5.0,
        "time/prepare_s": 1.0,
        "rate/rollout_tokens_per_s": 2.5,
        "rate/update_tokens_per_s": 2.5,
    }
    assert {name: record.metrics[name] for name in expected} == expected
    assert "rate/prepare_tokens_per_s" not in record.metrics, "nothing was scored"
    assert record.limit_notice is None


def test_rewards_of_functions_are_reported_and_a_missing_one_is_in_no_mean(outcome):
    first, second = outcome.shares
    judged = [
        replace(
            share,
            rewards=[reward],
            episodes=[replace(share.episodes[0], judgement=weigh({"a": found}, A, "drop"))],
        )
        for share, reward, found in (
            (first, 3.0, RewardOutcome(value=2.0)),
            (second, None, RewardOutcome(failure=RewardFailure.MEMORY)),
        )
    ]
    metrics = replace(outcome, shares=judged).record().metrics
    assert metrics["reward/mean"] == 3.0
    assert metrics["reward/mean_a"] == 2.0
    assert metrics["reward/memory_failures"] == 1.0
    assert metrics["reward/dropped_episodes"] == 1.0
    assert metrics["game/win_rate"] == 0.5
    assert not {name for name in outcome.record().metrics if "dropped_episodes" in name}


def test_waiting_for_rewards_is_no_time_of_the_engine(outcome):
    waited = replace(outcome, collected={"reward/wait_s": 0.5})
    assert waited.report().rollout_s == 1.5
    assert waited.record().metrics["time/rollout_s"] == 2.0


def test_a_limit_that_is_near_is_announced(outcome):
    decision = replace(outcome.choice.decision, steps_to_limit=3)
    near = replace(outcome, choice=replace(outcome.choice, decision=decision))

    assert (
        near.record().limit_notice == "contexts reach their limit, or fill the memory, in 3 steps"
    )


def test_scored_samples_count_for_the_rate_of_preparation(outcome):
    shares = [
        replace(share, counts=replace(share.counts, num_scored=share.counts.num_generated))
        for share in outcome.shares
    ]
    metrics = replace(outcome, shares=shares).record().metrics

    assert metrics["rate/prepare_tokens_per_s"] == 10.0
    assert metrics["mismatch/max_logprob_difference"] == 0.0


def test_the_effective_sample_size_is_that_of_the_weights_as_the_loss_had_them(outcome):
    # Weights 0.5 and 1.5: the mean is 1, that of squares 1.25.
    weighted = {"behaviour_weight": 1.0, "behaviour_weight_square": 1.25}
    metrics = replace(outcome, updates=weighted).record().metrics

    assert metrics["policy/effective_share"] == 0.8
    assert metrics["policy/behaviour_weight"] == 1.0
    assert "policy/behaviour_weight_square" not in metrics
    assert "policy/effective_share" not in outcome.record().metrics


def test_a_switch_is_told_to_the_selector_and_recorded(outcome):
    drift = Drift(
        num_tokens=9, mean_difference=1e-7, max_difference=1e-6, token_mult_prob_error=1.0
    )
    switch = Switch(from_tp=1, to_tp=2, tp=2, switch_s=0.75, bytes_moved=64, drift=drift)
    switched = replace(outcome, choice=replace(outcome.choice, switch=switch))

    assert switched.report().switch_s == 0.75
    metrics = switched.record().metrics
    assert metrics["time/switch_s"] == 0.75
    assert metrics["selector/switch_bytes_moved"] == 64.0
    assert metrics["selector/switch_failed"] == 0.0
    assert metrics["drift/max_logprob_difference"] == 1e-6
    assert "time/switch_s" not in outcome.record().metrics
    failed = replace(outcome, choice=replace(outcome.choice, switch=replace(switch, tp=1)))
    assert failed.report().switch_s is None
    assert failed.record().metrics["selector/switch_failed"] == 1.0


def test_scripted_play_is_no_time_of_an_engine(outcome):
    shares = [
        replace(share, counts=replace(share.counts, num_generated=0)) for share in outcome.shares
    ]
    assert replace(outcome, shares=shares).report().rollout_s is None


def test_a_decision_is_recorded_whole_with_what_came_of_it(outcome):
    decision = replace(
        outcome.choice.decision,
        inputs=Inputs(
            num_responses=2, context_tokens=50, growth_tokens_per_step=1.5, switch_s=0.25
        ),
        alternatives=(
            Alternative(
                tp=1, capacity_tokens=200, rollout_s=2.0, dwell_steps=inf, round_trip_s=0.0
            ),
        ),
    )
    whole = replace(outcome, choice=replace(outcome.choice, decision=decision))
    recorded = json.loads(whole.record().decision_json)
    assert (recorded["tp"], recorded["forecast_tokens"]) == (1, 100)
    assert recorded["inputs"] == {
        "num_responses": 2,
        "context_tokens": 50,
        "growth_tokens_per_step": 1.5,
        "switch_s": 0.25,
    }
    (alternative,) = recorded["alternatives"]
    assert (alternative["rollout_s"], alternative["dwell_steps"]) == (2.0, None)
    assert recorded["outcome"] == {"resident_tokens": 8, "queued": False, "rollout_s": 2.0}
    assert len(whole.record().decision_json) < 1000


def test_a_step_in_which_nothing_was_played_reports_nothing_of_games_and_contexts(outcome):
    silent = [replace(share, episodes=[], rewards=[]) for share in outcome.shares]
    step = replace(outcome, shares=silent)
    assert step.report() is None
    record = step.record()
    assert record.metrics["policy/kl"] == 0.5
    kinds = {name.partition("/")[0] for name in record.metrics}
    assert not kinds & {"game", "reward", "context", "end"}
