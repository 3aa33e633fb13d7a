"""The figures of a step, counted by hand."""

import time
from dataclasses import replace
from math import inf

import pytest
import torch
from earl_dispatch import Columns, Layout, RowSizes, plan_transfer
from earl_envs import EndReason
from earl_selector import Alternative, ContextReport, Decision
from earl_trainer.experience.transfer import Delivery
from earl_trainer.tracking.metrics import (
    StageClock,
    TokenCounts,
    context_metrics,
    dispatch_metrics,
    episode_metrics,
    selector_metrics,
)


@pytest.fixture
def episodes(make_summary, make_turn):
    one, two = [make_turn([1], [2])], [make_turn([1], [2]), make_turn([1, 2, 3], [4])]
    cut = [make_turn([1], [2], cut=True)]
    return [
        make_summary(outcome=1.0, turns=two),
        make_summary(outcome=1.0, turns=cut),  # won although a reply was cut
        make_summary(outcome=0.0, turns=two),
        make_summary(outcome=-1.0, turns=one),
        make_summary(outcome=-1.0, turns=one, end_reason=EndReason.ILLEGAL_MOVE),
        make_summary(outcome=-1.0, turns=two, end_reason=EndReason.UNPARSABLE),
        make_summary(outcome=0.0, turns=one, end_reason=EndReason.CONTEXT_LIMIT),
        make_summary(outcome=0.0, turns=one, end_reason=EndReason.CONTEXT_LIMIT),
        make_summary(outcome=0.0, turns=two, end_reason=EndReason.ENV_ERROR),
        make_summary(outcome=0.0, turns=one, end_reason=EndReason.OPPONENT_ERROR),
    ]


def test_outcomes_and_replies_are_counted_over_the_episodes_that_did_not_fail(episodes):
    rewards = [1.0, 1.0, 0.0, -1.0, -1.5, -1.5, 0.0, 0.0, 99.0, 99.0]
    metrics = episode_metrics(episodes, rewards)

    assert metrics["game/win_rate"] == 2 / 8
    assert metrics["game/draw_rate"] == 1 / 8, "a cut game is no draw"
    assert metrics["game/loss_rate"] == 5 / 8
    assert metrics["game/illegal_rate"] == 2 / 11, "per reply"
    assert metrics["game/turns_mean"] == 11 / 8
    assert metrics["game/failed_episodes"] == 2.0
    assert metrics["context/truncated_share"] == 3 / 8
    assert metrics["context/cut_share"] == 2 / 8, "a cut reply leaves the episode whole"
    assert metrics["reward/mean"] == -2.0 / 8
    assert metrics["reward/std"] == pytest.approx((7.5 / 8 - 0.25**2) ** 0.5)
    assert {name: count for name, count in metrics.items() if name.startswith("end/")} == {
        "end/finished": 4.0,
        "end/move_limit": 0.0,
        "end/turn_token_limit": 0.0,
        "end/illegal_move": 1.0,
        "end/unparsable": 1.0,
        "end/context_limit": 2.0,
        "end/env_error": 1.0,
        "end/opponent_error": 1.0,
    }


def test_a_step_in_which_everything_failed_still_has_figures(episodes):
    metrics = episode_metrics(episodes[-2:], [0.0, 0.0])

    assert metrics["game/failed_episodes"] == 2.0
    assert metrics["game/win_rate"] == metrics["game/loss_rate"] == metrics["reward/mean"] == 0.0


def test_what_a_greedy_baseline_reaches_is_told_apart_from_what_the_policy_samples(
    make_summary, make_turn
):
    sampled = make_summary(outcome=-1.0, turns=[make_turn([1], [2])])
    greedy = make_summary(outcome=1.0, turns=[make_turn([1], [2])] * 2, greedy=True)
    metrics = episode_metrics([sampled, greedy], [-1.0, 1.0])

    assert metrics["reward/greedy_mean"] == 1.0
    alone = episode_metrics([sampled], [-1.0])
    assert {name: metrics[name] for name in alone} == alone
    assert "reward/greedy_mean" not in alone


def test_contexts_are_reported_as_figures():
    report = ContextReport(
        step=3,
        num_responses=2,
        mean_context_tokens=20.5,
        max_context_tokens=30,
        resident_tokens=41,
    )

    assert context_metrics(report) == {
        "context/mean_tokens": 20.5,
        "context/max_tokens": 30.0,
        "context/resident_tokens": 41.0,
    }


def test_a_limit_that_is_not_in_sight_has_no_figure():
    decision = Decision(
        tp=2,
        previous_tp=1,
        reason="grows",
        forecast_tokens=100,
        capacity_tokens=80,
        feasible=(),
        steps_to_limit=None,
    )

    assert selector_metrics(decision) == {
        "selector/tp": 2.0,
        "selector/forecast_tokens": 100.0,
        "selector/capacity_tokens": 80.0,
        "selector/queues": 1.0,
        "selector/switches": 1.0,
    }
    limited = replace(decision, steps_to_limit=7, feasible=(2,))
    assert selector_metrics(limited)["selector/steps_to_limit"] == 7.0
    assert selector_metrics(limited)["selector/queues"] == 0.0


def test_a_decision_is_reported_with_what_came_of_it():
    decision = Decision(
        tp=2,
        previous_tp=2,
        reason="holds",
        forecast_tokens=100,
        capacity_tokens=80,
        feasible=(2,),
        steps_to_limit=None,
        alternatives=tuple(
            Alternative(
                tp=tp, capacity_tokens=0, rollout_s=seconds, dwell_steps=1.0, round_trip_s=0.0
            )
            for tp, seconds in ((1, inf), (2, 1.5))
        ),
    )
    report = ContextReport(
        step=3, num_responses=2, mean_context_tokens=40.0, max_context_tokens=41, resident_tokens=81
    )
    metrics = selector_metrics(decision.observe(report))

    assert metrics["selector/switches"] == 0.0
    assert metrics["selector/queued"] == 1.0
    assert metrics["time/rollout_predicted_s"] == 1.5
    fitting = replace(decision, capacity_tokens=81).observe(report)
    assert selector_metrics(fitting)["selector/queued"] == 0.0
    for unsaid in (replace(decision, previous_tp=None), replace(decision, tp=1)):
        assert "time/rollout_predicted_s" not in selector_metrics(unsaid)


def test_a_transfer_is_reported_with_its_bytes_and_its_floors():
    plan = plan_transfer(
        Layout.contiguous(num_rows=4, num_ranks=2),
        Layout.contiguous(num_rows=4, num_ranks=1),
        sizes=RowSizes(
            lengths=(10, 20, 30, 40),
            turns=(0,) * 4,
            token_bytes=1,
            num_bit_columns=0,
            turn_bytes=0,
            value_bytes=0,
        ),
    )
    batch = Columns(lengths=torch.tensor([1]), per_token={})
    moved = Delivery(
        batch=batch, minibatches=[], plan=plan, bytes_minimum=64.5, transfer_s=0.5, floor_s=0.2
    )
    metrics = dispatch_metrics(moved)

    assert metrics["dispatch/rows"] == 4.0
    assert metrics["dispatch/bytes_moved"] == 70.0
    assert metrics["dispatch/bytes_lower_bound"] == 70.0
    assert metrics["dispatch/bytes_minimum"] == 64.5
    assert metrics["dispatch/bytes_over_minimum"] == 5.5
    assert metrics["dispatch/messages"] == 1.0
    assert metrics["time/dispatch_transfer_s"] == 0.5
    assert metrics["time/dispatch_floor_s"] == 0.2
    assert metrics["rate/dispatch_times_floor"] == 2.5
    assert "rate/dispatch_times_floor" not in dispatch_metrics(replace(moved, floor_s=0.0))


def test_engine_and_learner_are_compared_at_trained_tokens_only(make_rows):
    rows = make_rows([3, 3])
    mask = torch.tensor([False, True, True, False, True, True])
    engine = torch.tensor([5.0, -1.0, -2.0, torch.nan, -0.5, 0.0])
    learner = torch.tensor([0.0, -1.5, -2.0, 0.0, -0.25, -9.0])
    # The last token is a script's.
    versions = torch.tensor([-1, 2, 2, -1, 2, -1], dtype=torch.int32)
    rows = replace(
        rows,
        per_token=dict(rows.per_token)
        | {"mask": mask, "rollout_logprobs": engine, "old_logprobs": learner, "versions": versions},
    )
    metrics = TokenCounts.of(rows, 2).metrics()

    assert metrics["mismatch/max_logprob_difference"] == 0.5


def test_nothing_to_compare_is_no_figure(make_rows):
    rows = make_rows([3, 2])
    scripted = dict(rows.per_token) | {"versions": torch.full((5,), -1, dtype=torch.int32)}
    hidden = scripted | {"mask": torch.zeros(5, dtype=torch.bool)}
    unscored = {name: scripted[name] for name in scripted if name != "old_logprobs"}

    assert TokenCounts.of(replace(rows, per_token=hidden), 2).metrics() == {}
    assert TokenCounts.of(replace(rows, per_token=unscored), 2).metrics() == {}


def test_the_age_of_tokens_is_counted_in_updates_and_leaves_out_what_no_engine_emitted(make_rows):
    rows = make_rows([3, 2])
    versions = torch.tensor([-1, 7, 7, 4, 6], dtype=torch.int32)
    rows = replace(rows, per_token=dict(rows.per_token) | {"versions": versions})
    metrics = TokenCounts.of(rows, 7).metrics()
    ages = {name: value for name, value in metrics.items() if name.startswith("staleness/")}
    assert ages == {
        "staleness/mean": 1.0,
        "staleness/max": 3.0,
        "staleness/tokens_at_0": 2.0,
        "staleness/tokens_at_1": 1.0,
        "staleness/tokens_at_3": 1.0,
    }


def test_counts_of_parts_add_up_to_those_of_the_whole(make_rows):
    rows = make_rows([5, 9, 2, 7])
    versions = torch.arange(rows.num_tokens, dtype=torch.int32) % 3 - 1
    rows = replace(rows, per_token=dict(rows.per_token) | {"versions": versions})
    parts = [TokenCounts.of(rows.select(part), 2) for part in ([2], [], [0, 1, 3])]
    total, whole = TokenCounts.total(parts), TokenCounts.of(rows, 2)

    assert total == whole
    assert whole.num_generated == int((versions >= 0).sum())


def test_the_clock_adds_up_stages_and_rates():
    clock = StageClock()
    time.sleep(0.01)  # between the stages, yet a part of the step
    for _ in range(2):
        with clock.stage("rollout"):
            time.sleep(0.01)
    with pytest.raises(ZeroDivisionError), clock.stage("update"):
        raise ZeroDivisionError
    metrics = clock.metrics({"rollout": 50, "update": 0})

    assert metrics["time/rollout_s"] >= 0.02
    assert metrics["time/step_s"] >= metrics["time/rollout_s"] + metrics["time/update_s"] + 0.01
    assert metrics["rate/rollout_tokens_per_s"] == 50 / metrics["time/rollout_s"]
    assert "rate/update_tokens_per_s" not in metrics, "a stage without tokens has no rate"


def test_wins_are_counted_by_seat(make_summary):
    outcomes = [(1, 1.0), (0, 1.0), (1, -1.0), (0, 1.0), (1, -1.0), (0, 0.0)]
    episodes = [make_summary(seat=seat, outcome=outcome) for seat, outcome in outcomes]
    episodes.append(make_summary(seat=0, end_reason=EndReason.OPPONENT_ERROR))
    metrics = episode_metrics(episodes, [0.0] * 7)

    rates = {name: value for name, value in metrics.items() if "win_rate_" in name}
    assert rates == {"game/win_rate_seat_0": 2 / 3, "game/win_rate_seat_1": 1 / 3}


def test_several_games_are_counted_one_by_one_and_by_their_place_in_the_context(
    make_summary, make_turn
):
    won, drawn = (1.0, EndReason.FINISHED), (0.0, EndReason.FINISHED)
    illegal = (-1.0, EndReason.ILLEGAL_MOVE)
    turns = [make_turn([1], [2])] * 4
    episodes = [
        make_summary(games=[drawn, won, won], turns=turns),
        make_summary(games=[illegal, drawn, won], turns=turns),
        make_summary(games=[won, (0.0, EndReason.CONTEXT_LIMIT)], num_games=3, turns=turns),
    ]
    metrics = episode_metrics(episodes, [0.0] * 3)

    assert metrics["game/win_rate"] == 4 / 8
    assert metrics["game/draw_rate"] == 2 / 8
    assert metrics["game/loss_rate"] == 2 / 8
    assert metrics["game/turns_mean"] == 12 / 8
    assert metrics["game/illegal_rate"] == 1 / 12
    assert [metrics[f"game/win_rate_game_{place}"] for place in range(3)] == [1 / 3, 1 / 3, 1.0]
    assert metrics["game/games_per_episode"] == 3.0
    assert metrics["end/finished"] == 6.0
    assert metrics["end/context_limit"] == 1.0


def test_games_that_another_seats_forfeit_decided_are_counted_in_self_play_only(make_summary):
    first, second = make_summary(seat=0), make_summary(seat=1, outcome=-1.0)
    forfeited = [
        replace(episode, games=[replace(episode.games[0], forfeited_by=1)])
        for episode in (first, second)
    ]
    name = "game/other_forfeit_rate"

    assert episode_metrics([*forfeited, first, second], [0.0] * 4)[name] == 0.25
    assert name not in episode_metrics([first, first], [0.0] * 2)
