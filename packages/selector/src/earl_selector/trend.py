"""Forecast of a token count from its last few values."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The last value of a series and its growth."""

    last_tokens: int
    growth_tokens_per_step: float

    @property
    def is_growing(self) -> bool:
        """Tell whether the fitted line rises."""
        return self.growth_tokens_per_step > 0.0

    @property
    def next_tokens(self) -> int:
        """Forecast the next step: the last value plus the growth, never below the last value.

        A falling line is not followed. Forecasting too much costs speed for a few steps;
        forecasting too little overflows memory.
        """
        return self.last_tokens + ceil(max(0.0, self.growth_tokens_per_step))

    def steps_until(self, limit_tokens: int) -> int | None:
        """Return in how many steps the line reaches a limit.

        Returns:
            0 where the last value has reached it already, None where it has not and nothing grows.
        """
        missing_tokens = limit_tokens - self.last_tokens
        if missing_tokens <= 0:
            return 0
        if not self.is_growing:
            return None
        return ceil(missing_tokens / self.growth_tokens_per_step)


def fit_trend(steps: Sequence[int], tokens: Sequence[int]) -> Trend:
    """Fit a line to a series by ordinary least squares and keep its slope.

    slope = (n sum(xy) - sum(x) sum(y)) / (n sum(xx) - sum(x)^2). Source: Draper and Smith, Applied
    Regression Analysis, chapter 1. The sums are exact integers, so a constant series has slope 0
    and a rising one a positive slope, however large the values. One point has slope 0.

    Args:
        steps: Strictly rising, at least one.
        tokens: The values at these steps.
    """
    assert len(steps) == len(tokens) >= 1
    num_points = len(steps)
    covariance = num_points * sum(x * y for x, y in zip(steps, tokens, strict=True)) - sum(
        steps
    ) * sum(tokens)
    variance = num_points * sum(x * x for x in steps) - sum(steps) ** 2
    slope = covariance / variance if num_points > 1 else 0.0
    return Trend(last_tokens=tokens[-1], growth_tokens_per_step=slope)


def list_ratios_to_line(steps: Sequence[int], tokens: Sequence[int]) -> tuple[float, ...]:
    """Return how each value lies above (> 1) or below (< 1) the line that `fit_trend` fits.

    The line passes through the means of steps and values, as every least-squares line does. A place
    where it is not positive, so that a ratio says nothing, counts as 1.
    """
    mean_step = sum(steps) / len(steps)
    mean_tokens = sum(tokens) / len(tokens)
    slope = fit_trend(steps, tokens).growth_tokens_per_step
    line = [mean_tokens + slope * (step - mean_step) for step in steps]
    return tuple(
        value / fitted if fitted > 0.0 else 1.0 for value, fitted in zip(tokens, line, strict=True)
    )


def find_growth(steps: Sequence[int], tokens: Sequence[int], *, shortest: int) -> Trend | None:
    """Return the line along which a series climbs, if growth can be told from jitter.

    That is where the fitted line rises by more than the values scatter about it (their range, so no
    distribution is assumed), through the latest `shortest` values or, failing that, twice as many,
    and so on: a slow rise shows late.

    Args:
        steps: Strictly rising.
        tokens: The values at these steps.
        shortest: Values that are looked at together at least.

    Returns:
        None where nothing climbs, or too little to tell.
    """
    num_latest = shortest
    while num_latest <= len(steps):
        latest_steps, latest_tokens = steps[-num_latest:], tokens[-num_latest:]
        trend = fit_trend(latest_steps, latest_tokens)
        slope = trend.growth_tokens_per_step
        offsets = [y - slope * x for x, y in zip(latest_steps, latest_tokens, strict=True)]
        if slope * (latest_steps[-1] - latest_steps[0]) > max(offsets) - min(offsets):
            return trend
        num_latest *= 2
    return None
