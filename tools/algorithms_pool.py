"""Runs of an algorithm with several seeds, taken together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from earl_envs.evaluation.intervals import wilson_interval

Row = Mapping[str, Any]  # Any: parsed JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A share of all games, with its 95 % interval."""

    rate: float
    low: float
    high: float

    @classmethod
    def of(cls, results: Sequence[Row]) -> "Rate":
        """Pool the wins of matches."""
        games = sum(result["games"] for result in results)
        wins = sum(round(result["win_rate"] * result["games"]) for result in results)
        low, high = wilson_interval(wins, games)
        return cls(rate=wins / games, low=low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """What the runs of one algorithm came to."""

    algorithm: str
    num_seeds: int
    before: Rate
    after: Rate
    illegal_rate: float
    """Of the worst seed."""
    wall_s: float
    """Mean of a run."""
    peak_bytes: int
    """Of the largest run."""
    curve: Sequence[float]
    """Mean win rate of each step's episodes."""


def pool(rows: Sequence[Row]) -> list[Pooled]:
    """Take the rows of each algorithm together, in the order of their first."""
    return [
        _pool(name, [row for row in rows if row["algorithm"] == name])
        for name in dict.fromkeys(row["algorithm"] for row in rows)
    ]


def _pool(name: str, rows: Sequence[Row]) -> Pooled:
    after = [row["evaluation"]["after"] for row in rows]
    curves = [row["win_rates_of_steps"] for row in rows]
    return Pooled(
        algorithm=name,
        num_seeds=len(rows),
        before=Rate.of([row["evaluation"]["before"] for row in rows]),
        after=Rate.of(after),
        illegal_rate=max(result["illegal_rate"] for result in after),
        wall_s=fmean(row["wall_s"] for row in rows),
        peak_bytes=max(row["peak_bytes"] for row in rows),
        curve=[fmean(rates) for rates in zip(*curves, strict=True)],
    )
