"""A loss that jumps."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, final

from earl_trainer.guards.guard import Evidence, Row

_MAD_TO_DEVIATION: Final = 1.4826
_LEAST_DEVIATION: Final = 1e-3
"""A loss that has not moved at all still may by so much, and by this share of its size."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LossSpike:
    """Finds a loss far above those before it.

    The distance is that of the modified z-score, (x - median) / (1.4826 MAD) with MAD the median
    distance to the median (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993): unlike
    mean and standard deviation neither moves much by a spike that has been among the rows.
    """

    deviations: float
    """How far above; Iglewicz and Hoaglin call 3.5 an outlier, of data less noisy than this."""
    num_steps: int
    """Steps before that it is compared with."""

    @property
    def figures(self) -> Sequence[str]:
        """The mean loss of the step's updates."""
        return ("policy/loss",)

    @property
    def num_rows(self) -> int:
        """The steps before, and the one in question."""
        return self.num_steps + 1

    def judge(self, rows: Sequence[Row]) -> Evidence | None:
        """Compare the last row with the others, once there are enough of them."""
        *before, latest = [value for (value,) in rows]
        if len(before) < self.num_steps:
            return None
        centre = median(before)
        spread = _MAD_TO_DEVIATION * median(abs(value - centre) for value in before)
        deviation = max(spread, _LEAST_DEVIATION * max(1.0, abs(centre)))
        if latest <= centre + self.deviations * deviation:
            return None
        return Evidence(
            reason=f"loss {latest:.4g} is {(latest - centre) / deviation:.0f} deviations above "
            f"the median {centre:.4g} of {self.num_steps} steps"
        )
