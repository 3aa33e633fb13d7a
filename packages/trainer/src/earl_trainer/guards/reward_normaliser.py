"""Rewards on one scale over a whole run, whatever a reward function's own."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

from earl_trainer.workers.group import Group

_MIN_STD: Final = 1e-6
"""Under it all rewards so far are equal, and their scale is unknown."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RewardStatistics:
    """Mean and spread of all rewards so far; it is saved with a run."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Sum of the squared distances to the mean."""

    @property
    def std(self) -> float:
        """The biased standard deviation."""
        return math.sqrt(self.squares / self.count) if self.count else 0.0

    def add(self, rewards: Sequence[float]) -> "RewardStatistics":
        """Take in the rewards of a step.

        Two samples are joined by their means and squares, d = mean_b - mean_a: mean = mean_a +
        d n_b / n, squares = squares_a + squares_b + d^2 n_a n_b / n (Chan, Golub and LeVeque,
        "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979, eq. 2.1).
        """
        if not rewards:
            return self
        number = len(rewards)
        total = self.count + number
        mean = math.fsum(rewards) / number
        distance = mean - self.mean
        squares = math.fsum((reward - mean) ** 2 for reward in rewards)
        return RewardStatistics(
            count=total,
            mean=self.mean + distance * number / total,
            squares=self.squares + squares + distance**2 * self.count * number / total,
        )

    def normalise(self, rewards: Sequence[float | None], *, centre: bool) -> list[float | None]:
        """Divide rewards by the standard deviation of all so far; a missing one stays missing.

        Args:
            rewards: Of episodes.
            centre: Whether to take off the mean before. It moves what an episode without reward is
                worth, which only algorithms without a baseline of their own need.
        """
        shift = self.mean if centre else 0.0
        scale = self.std if self.std >= _MIN_STD else 1.0
        return [None if reward is None else (reward - shift) / scale for reward in rewards]


@final
class RewardNormaliser:
    """Normalises the rewards of a phase, step by step, by those of all workers so far.

    Args:
        rule: `scale` divides by the spread, `centre` takes the mean off as well, `off` does
            nothing.
        statistics: Of the steps before.
        workers: All of which call `normalise` once a step.
    """

    def __init__(
        self,
        rule: Literal["off", "scale", "centre"],
        statistics: RewardStatistics,
        workers: Group,
    ) -> None:
        self._rule = rule
        self._workers = workers
        self.statistics = statistics

    def normalise(self, rewards: Sequence[float | None]) -> Sequence[float | None]:
        """Take in the rewards of this worker's episodes and return them on one scale."""
        if self._rule == "off":
            return rewards
        told = self._workers.all_gather([each for each in rewards if each is not None])
        self.statistics = self.statistics.add([each for part in told for each in part])
        return self.statistics.normalise(rewards, centre=self._rule == "centre")

    @property
    def figures(self) -> Mapping[str, float]:
        """Mean and spread so far; none where nothing is normalised."""
        if self._rule == "off":
            return {}
        return {"guard/reward_mean": self.statistics.mean, "guard/reward_std": self.statistics.std}
