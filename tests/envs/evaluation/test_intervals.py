import numpy as np
import pytest
from earl_envs.evaluation.intervals import (
    Z_95,
    difference_interval,
    mean_interval,
    wilson_interval,
)
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        # The closed form at the ends: z^2 / (n + z^2) from 0, n / (n + z^2) to 1.
        (0, 10, 0.0, 3.841459 / 13.841459),
        (400, 400, 400 / 403.841459, 1.0),
        (50, 100, 0.4038, 0.5962),
    ],
)
def test_wilson_interval_equals_known_values(successes, trials, low, high):
    assert wilson_interval(successes, trials) == pytest.approx((low, high), abs=6e-5)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(trials=st.integers(1, 3000), data=st.data())
def test_wilson_interval_holds_its_rate_and_reaches_the_ends_only_there(trials, data):
    successes = data.draw(st.integers(0, trials) | st.sampled_from([0, trials]))
    low, high = wilson_interval(successes, trials)
    assert 0.0 <= low <= successes / trials <= high <= 1.0
    assert (low == 0.0) is (successes == 0)
    assert (high == 1.0) is (successes == trials)


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [
        # Newcombe, Statistics in Medicine 17 (1998) 873-890, table II, method 10, of p1 - p2.
        ((48, 80), (56, 70), 0.0524, 0.3339),
        ((3, 10), (9, 10), 0.1705, 0.8090),
        ((2, 7), (6, 7), 0.0582, 0.8062),
        ((0, 29), (5, 56), -0.0381, 0.1926),
        ((0, 20), (0, 10), -0.1611, 0.2775),
        ((0, 10), (10, 10), 0.6075, 1.0),
    ],
)
def test_difference_interval_equals_newcombes_values(first, second, low, high):
    assert difference_interval(*first, *second) == pytest.approx((low, high), abs=6e-5)


def test_the_difference_the_other_way_round_is_its_mirror_image():
    low, high = difference_interval(48, 80, 56, 70)
    assert difference_interval(56, 70, 48, 80) == pytest.approx((-high, -low))


@pytest.mark.parametrize(("successes", "trials"), [(1, 0), (0, 0), (-1, 5), (6, 5)])
def test_counts_that_are_none_are_refused(successes, trials):
    with pytest.raises(ValueError, match=f"got {successes}/{trials}"):
        wilson_interval(successes, trials)


def test_draws_count_as_half_a_success():
    low, high = wilson_interval(7.5, 20)
    assert wilson_interval(7, 20) < (low, high) < wilson_interval(8, 20)


def test_the_interval_of_a_mean_takes_the_variance_for_that_of_a_rate():
    scores = [1.0] * 10 + [0.5] * 10 + [0.0] * 5
    # The mean is 15/25, the variance (10 * 0.4^2 + 10 * 0.1^2 + 5 * 0.6^2) / 24 = 3.5 / 24.
    num_trials = 0.6 * 0.4 / (3.5 / 24 / 25)
    low, high = mean_interval(scores)
    assert low < 0.6 < high
    for end in (low, high):
        # What makes it a score interval: its ends are the rates that p just fails to reject.
        assert (0.6 - end) ** 2 == pytest.approx(Z_95**2 * end * (1 - end) / num_trials)


@pytest.mark.parametrize(
    "scores", [[1.0, 0.5, 0.0], [1.0] * 12 + [0.5] * 7, [0.5] * 400, [1.0] * 30, [0] * 30, [0.25]]
)
def test_scores_that_tell_no_variance_are_a_trial_each(scores):
    assert mean_interval(scores) == pytest.approx(wilson_interval(sum(scores), len(scores)))


@pytest.mark.parametrize(
    ("shares", "held_by_games"),
    [
        # Shares of pairs that score 0, 1/2 and 1. The start decides most games: the games of a
        # pair differ, and counted one by one they leave the score too uncertain.
        ((0.05, 0.80, 0.15), (0.98, 1.0)),
        # Both games of a pair are the same game, and counted one by one they tell too much.
        ((0.4, 0.0, 0.6), (0.0, 0.88)),
    ],
)
def test_the_interval_of_a_mean_holds_it_as_often_as_it_says(shares, held_by_games):
    rng, num_pairs, num_tries = np.random.default_rng(0), 60, 3000
    mean = shares[1] / 2 + shares[2]
    by_pairs = by_games = 0
    for counts in rng.multinomial(num_pairs, shares, size=num_tries).tolist():
        scores = np.repeat([0.0, 0.5, 1.0], counts).tolist()
        low, high = mean_interval(scores)
        by_pairs += low <= mean <= high
        low, high = wilson_interval(2 * sum(scores), 2 * num_pairs)
        by_games += low <= mean <= high
    assert 0.935 < by_pairs / num_tries < 0.965
    assert held_by_games[0] < by_games / num_tries < held_by_games[1]


@pytest.mark.parametrize("scores", [[], [0.5, 1.5], [-0.5, 0.5], [float("nan")]])
def test_scores_that_are_none_are_refused(scores):
    with pytest.raises(ValueError, match="need at least one score, all in"):
        mean_interval(scores)
