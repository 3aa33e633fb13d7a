"""A reward that no longer rises."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import final

from earl_trainer.guards.guard import Evidence, Row


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPlateau:
    """Finds a mean reward over the latest steps that is hardly above that of as many before.

    Means and not best values, as the best of noisy rewards rises by chance alone.
    """

    least_gain: float
    """In units of the reward."""
    num_steps: int
    """Steps of each of the two means."""

    @property
    def figures(self) -> Sequence[str]:
        """The mean reward of the step's episodes."""
        return ("reward/mean",)

    @property
    def num_rows(self) -> int:
        """The steps of both means."""
        return 2 * self.num_steps

    def judge(self, rows: Sequence[Row]) -> Evidence | None:
        """Compare the two means, once there are enough steps for both."""
        if len(rows) < self.num_rows:
            return None
        values = [value for (value,) in rows]
        before, latest = fmean(values[: self.num_steps]), fmean(values[self.num_steps :])
        if latest - before >= self.least_gain:
            return None
        return Evidence(
            reason=f"mean reward {latest:.4g} of {self.num_steps} steps is less than "
            f"{self.least_gain:g} above the {before:.4g} of those before",
            num_steps=self.num_steps,
        )
