"""The figures of a checkup, and what is remembered of it."""

import json
from dataclasses import replace

import pytest
from earl_trainer.evaluation.checkup import (
    Checkup,
    CheckupHistory,
    pair_result,
    weights_name,
)
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.evaluation.optimal_moves import OptimalMoves


def match(wins, draws, games=10):
    return MatchResult(
        games=games,
        win_rate=wins / games,
        win_rate_low=0.0,
        win_rate_high=1.0,
        draw_rate=draws / games,
        loss_rate=(games - wins - draws) / games,
        illegal_rate=0.0,
    )


HISTORY = CheckupHistory(
    results=(
        pair_result("step-000000", "random", match(1, 2)),
        pair_result("step-000010", "random", match(7, 2)),
        pair_result("step-000010", "minimax", match(0, 4)),
        pair_result("step-000010", "step-000000", match(8, 1)),
    )
)


@pytest.fixture
def checkup():
    return Checkup(
        step=10,
        matches={"random": match(7, 2), "minimax": match(0, 4)},
        past_selves={"step-000000": match(8, 1)},
        ratings=HISTORY.ratings("random"),
        optimal=OptimalMoves(num_moves=8, num_optimal=6, expected_of_random=3.0),
    )


def test_points_count_every_opponent_the_same(checkup):
    figures = checkup.figures()
    assert figures["checkup/random/score"] == pytest.approx(0.8)
    assert figures["checkup/minimax/score"] == pytest.approx(0.2)
    assert figures["checkup/score"] == pytest.approx(0.5)
    assert figures["checkup/past_selves_score"] == pytest.approx(0.85)
    assert figures["checkup/step"] == 10.0
    assert (figures["checkup/optimal_share"], figures["checkup/optimal_share_of_random"]) == (
        0.75,
        0.375,
    )


def test_weights_that_win_are_rated_above_those_they_beat(checkup):
    ratings = {rating.name: rating.elo for rating in checkup.ratings}
    assert ratings["random"] == 0.0
    assert ratings["minimax"] > ratings["step-000010"] > 0.0 > ratings["step-000000"]
    assert checkup.rating.name == weights_name(10)


def test_a_checkup_is_one_line(checkup):
    line = checkup.describe()
    assert line.startswith(
        "checkup before step 11: points against random 80.0%, minimax 20.0%; past selves 85.0%; "
        f"Elo {checkup.rating.elo:+.0f} ["
    )
    assert line.endswith("]; 75.0% of moves optimal, of random ones 37.5%")
    bare = replace(checkup, past_selves={}, optimal=None).describe()
    assert "past selves" not in bare
    assert "optimal" not in bare


def test_a_history_survives_the_trip_through_json(checkup):
    history = replace(HISTORY, latest=checkup.figures())
    assert CheckupHistory.from_dict(json.loads(json.dumps(history.to_dict()))) == history
    assert history.step == 10
    assert CheckupHistory().step is None
