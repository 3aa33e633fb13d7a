from random import Random

import numpy as np
import pytest
from earl_selector.trend import Trend, find_growth, fit_trend, list_ratios_to_line
from hypothesis import given
from hypothesis import strategies as st

series = st.dictionaries(st.integers(0, 50), st.integers(0, 10**6), min_size=2, max_size=6).map(
    lambda points: sorted(points.items())
)


def test_forecast_is_the_last_value_plus_the_growth_per_step():
    trend = fit_trend([10, 12, 14], [100, 140, 180])
    assert trend == Trend(last_tokens=180, growth_tokens_per_step=20.0)
    assert trend.next_tokens == 200


def test_falling_series_forecasts_its_last_value():
    assert fit_trend([0, 1, 2], [300, 200, 100]).next_tokens == 100


def test_single_value_is_its_own_forecast():
    assert fit_trend([7], [42]) == Trend(last_tokens=42, growth_tokens_per_step=0.0)


@given(series)
def test_slope_equals_that_of_numpy(points):
    steps, tokens = [list(column) for column in zip(*points, strict=True)]
    slope = np.polyfit(steps, tokens, 1)[0]
    assert fit_trend(steps, tokens).growth_tokens_per_step == pytest.approx(slope, abs=1e-3)


@given(series)
def test_forecast_is_never_below_the_last_value(points):
    steps, tokens = [list(column) for column in zip(*points, strict=True)]
    assert fit_trend(steps, tokens).next_tokens >= tokens[-1]


@pytest.mark.parametrize(
    ("growth", "limit_tokens", "num_steps"),
    [(10.0, 130, 3), (10.0, 131, 4), (0.0, 130, None), (-5.0, 130, None), (-5.0, 100, 0)],
)
def test_steps_until_a_limit(growth, limit_tokens, num_steps):
    trend = Trend(last_tokens=100, growth_tokens_per_step=growth)
    assert trend.steps_until(limit_tokens) == num_steps


def test_ratios_are_those_to_the_fitted_line():
    # Through (0, 100), (1, 140), (2, 120): slope 10 about the mean 120.
    assert list_ratios_to_line([0, 1, 2], [100, 140, 120]) == (100 / 110, 140 / 120, 120 / 130)


@given(st.integers(1, 10**6), st.integers(0, 10**4), st.integers(1, 6))
def test_values_on_a_line_have_ratio_one(start, growth, num_points):
    tokens = [start + growth * step for step in range(num_points)]
    assert list_ratios_to_line(range(num_points), tokens) == pytest.approx([1.0] * num_points)


def test_ratio_to_a_line_below_zero_counts_as_one():
    assert list_ratios_to_line([0, 1, 2, 3], [0, 0, 0, 100])[0] == 1.0


def jittery(rng, num_steps, growth_per_step):
    return [
        int(10_000 * (1 + growth_per_step * step) * rng.lognormvariate(0.0, 0.05))
        for step in range(num_steps)
    ]


def test_growth_is_the_line_through_the_fewest_values_that_show_it():
    tokens = [100, 100, 100, 100, 110, 120, 130, 140]
    assert find_growth(range(8), tokens, shortest=4) == Trend(
        last_tokens=140, growth_tokens_per_step=10.0
    )
    assert find_growth(range(8), tokens, shortest=8) == fit_trend(range(8), tokens)


def test_slow_growth_shows_through_more_values():
    rng = Random(0)
    tokens = jittery(rng, 64, 0.01)
    assert find_growth(range(16), tokens[-16:], shortest=16) is None
    assert find_growth(range(64), tokens, shortest=16) is not None


def test_jitter_is_hardly_ever_taken_for_growth_and_growth_hardly_ever_for_jitter():
    rng = Random(0)
    grew = {
        growth: sum(
            find_growth(range(25), jittery(rng, 25, growth), shortest=16) is not None
            for _ in range(1000)
        )
        for growth in (0.0, 0.04)
    }
    assert grew[0.0] <= 5
    assert grew[0.04] >= 950


@pytest.mark.parametrize("tokens", [[5] * 8, [*range(8, 0, -1)], [*[0] * 7, 9], [1, 2, 3]])
def test_flat_falling_jumping_and_short_series_do_not_grow(tokens):
    assert find_growth(range(len(tokens)), tokens, shortest=8) is None
