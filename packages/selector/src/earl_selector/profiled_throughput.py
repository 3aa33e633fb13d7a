"""Throughput from a profile: interpolated where it was measured, calibrated where it was not."""

from bisect import bisect_right
from dataclasses import dataclass, field
from math import exp, log
from typing import final

from earl_selector.profile_table import ProfileTable
from earl_selector.throughput import ThroughputModel


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledThroughput:
    """A profile table, and a prior model for what lies outside it.

    Inside a cell of the grid whose four corners ran, log(rate) is bilinear in log(responses) and
    log(context): exact at the corners, and for every power law. Source: Press et al., Numerical
    Recipes, section 3.6, on logarithms. Anywhere else the prior, times the ratio of measurement to
    prior at the nearest place that was measured: on the edge of the grid by interpolation, so that
    the whole is continuous there, or else at the nearest point, in logarithms.
    """

    table: ProfileTable
    prior: ThroughputModel
    _rates: dict[tuple[int, int, int], float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not any(point.tokens_per_s_per_device > 0.0 for point in self.table.points):
            raise ValueError("a profile without any point that ran says nothing: measure first")
        rates = {point.key: point.tokens_per_s_per_device for point in self.table.points}
        object.__setattr__(self, "_rates", rates)

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        """Return the rate; 0.0 where the prior is 0.0 or a load no larger was seen not to run."""
        for (degree, row, column), rate in self._rates.items():
            if (rate, degree) == (0.0, tp) and row <= num_responses and column <= context_tokens:
                return 0.0
        inside = self._interpolate(tp, num_responses, context_tokens)
        if inside is not None:
            return inside
        prior = self.prior.tokens_per_s_per_device(tp, num_responses, context_tokens)
        return prior * self._calibrate(tp, num_responses, context_tokens) if prior > 0.0 else 0.0

    def _interpolate(self, tp: int, num_responses: int, context_tokens: int) -> float | None:
        rows = _bracket(self.table.grid.num_responses, num_responses)
        columns = _bracket(self.table.grid.context_tokens, context_tokens)
        if rows is None or columns is None:
            return None
        total = 0.0
        for row, row_weight in rows:
            for column, column_weight in columns:
                rate = self._rates.get((tp, row, column), 0.0)
                if rate <= 0.0:
                    return None
                total += row_weight * column_weight * log(rate)
        return exp(total)

    def _calibrate(self, tp: int, num_responses: int, context_tokens: int) -> float:
        """Return measurement over prior, at the place nearest to the one asked for."""
        grid = self.table.grid
        row = min(max(num_responses, grid.num_responses[0]), grid.num_responses[-1])
        column = min(max(context_tokens, grid.context_tokens[0]), grid.context_tokens[-1])
        edge = self._interpolate(tp, row, column)
        prior = self.prior.tokens_per_s_per_device(tp, row, column)
        if edge is not None and prior > 0.0:
            return edge / prior
        ratios = self._ratios(num_responses, context_tokens)
        same_degree = [each for each in ratios if each[0] == tp]
        return min(same_degree or ratios, key=lambda each: each[1])[2] if ratios else 1.0

    def _ratios(self, num_responses: int, context_tokens: int) -> list[tuple[int, float, float]]:
        """List degree, squared logarithmic distance and ratio to the prior of all that ran."""
        ratios: list[tuple[int, float, float]] = []
        for (tp, row, column), rate in self._rates.items():
            prior = self.prior.tokens_per_s_per_device(tp, row, column)
            if rate > 0.0 and prior > 0.0:
                distance = log(num_responses / row) ** 2 + log(context_tokens / column) ** 2
                ratios.append((tp, distance, rate / prior))
        return ratios


def _bracket(axis: tuple[int, ...], value: int) -> tuple[tuple[int, float], ...] | None:
    """Return the neighbours of a value on an axis with their weights; None outside the axis."""
    if not axis[0] <= value <= axis[-1]:
        return None
    place = bisect_right(axis, value) - 1
    lower = axis[place]
    if lower == value:
        return ((lower, 1.0),)
    upper = axis[place + 1]
    weight = log(value / lower) / log(upper / lower)
    return (lower, 1.0 - weight), (upper, weight)
