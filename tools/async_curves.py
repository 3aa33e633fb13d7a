"""Learning curves of runs, one beside another: win rates by the weights that played."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from earl_envs.evaluation.intervals import wilson_interval

WINDOW_STEPS = 4
"""Versions of the weights that share a point of a curve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The games of some neighbouring versions, over all runs."""

    version: float
    """In their middle."""
    games: int
    wins: int

    @property
    def win_rate(self) -> float:
        """Share of the games that was won."""
        return self.wins / self.games

    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the win rate."""
        return wilson_interval(self.wins, self.games)


def learning_curve(rows: Sequence[Mapping[str, Any]], variant: str) -> list[Point]:
    """Pool the runs of a variant into one curve.

    A step's games count for the weights that played them: those of the step, less its mean
    staleness. So a run that plays ahead is not taken to have learnt less because it trains on
    games of weights that had.

    Args:
        rows: Of `async_throughput`, with `win_rates_of_steps`, `staleness_of_steps` and
            `games_per_step`.
        variant: Label of the runs.
    """
    games: dict[int, int] = {}
    wins: dict[int, int] = {}
    for row in (row for row in rows if row["variant"] == variant):
        steps = zip(row["win_rates_of_steps"], row["staleness_of_steps"], strict=True)
        for step, (win_rate, staleness) in enumerate(steps):
            window = int(max(0.0, step - staleness)) // WINDOW_STEPS
            games[window] = games.get(window, 0) + row["games_per_step"]
            wins[window] = wins.get(window, 0) + round(win_rate * row["games_per_step"])
    return [
        Point(version=(window + 0.5) * WINDOW_STEPS - 0.5, games=games[window], wins=wins[window])
        for window in sorted(games)
    ]


def widest_gap(curve: Sequence[Point], other: Sequence[Point]) -> float:
    """Return by how much the intervals of two curves miss one another at most; below 0 they meet.

    Points that one curve lacks are left out.
    """
    others = {point.version: point for point in other}
    gaps: list[float] = []
    for point in curve:
        if point.version in others:
            (low, high), (low_2, high_2) = point.interval(), others[point.version].interval()
            gaps.append(max(low - high_2, low_2 - high))
    return max(gaps)
