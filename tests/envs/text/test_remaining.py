"""Predicted lengths against the definition and against long-run means."""

import numpy as np
import pytest
from earl_envs.text.remaining import RemainingTurns
from hypothesis import given
from hypothesis import strategies as st


def _after(lengths, max_moves=9):
    estimate = RemainingTurns(max_moves=max_moves)
    for length in lengths:
        estimate = estimate.update(length)
    return estimate


def test_nothing_known_predicts_the_bound_of_the_rules():
    assert [_after([]).predict(made) for made in (0, 4, 9)] == [9, 5, 0]


@given(st.lists(st.integers(0, 9)), st.integers(0, 9))
def test_prediction_is_the_mean_rest_of_games_that_lasted_longer(lengths, made):
    rests = [length - made for length in lengths if length > made]
    predicted = _after(lengths).predict(made)
    assert predicted == pytest.approx((9 - made + sum(rests)) / (1 + len(rests)))


def test_prediction_comes_near_the_mean_length_with_many_games():
    lengths = np.random.default_rng(0).integers(5, 10, 2_000).tolist()
    assert _after(lengths).predict(0) == pytest.approx(np.mean(lengths), abs=0.01)


def test_update_makes_a_new_value():
    before = _after([5])
    before.update(7)
    assert before == _after([5])
    assert _after([5, 7]) == _after([7, 5])


def test_games_with_turns_without_a_move_may_outlast_the_bound():
    estimate = _after([12, 12, 20])
    assert estimate.predict(0) == (9 + 12 + 12 + 20) / 4
    assert estimate.predict(9) == (3 + 3 + 11) / 3  # the imaginary game is over by then
    assert [estimate.predict(made) for made in (15, 20, 30)] == [5, 0, 0]


def test_negative_length_is_refused():
    with pytest.raises(ValueError, match="a game takes 0 turns or more, got -1"):
        _after([]).update(-1)
