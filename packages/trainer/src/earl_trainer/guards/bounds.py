"""A figure that stays out of bounds: a policy that drifts or collapses, updates that fail."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from earl_trainer.guards.guard import Evidence, Row


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LastingBreach:
    """Finds a figure outside its bounds in each of the latest steps.

    Of a KL divergence it is the early stop of PPO's implementations (OpenAI Spinning Up,
    `target_kl`), taken over from updates to steps. Of the entropy it finds its collapse: policy
    gradients concentrate on what was rewarded first until the samples of a group are all alike and
    nothing is left to compare (DAPO, arXiv:2503.14476, section 3.1).
    """

    figure: str
    low: float = -math.inf
    high: float = math.inf
    num_steps: int
    """Steps in a row."""

    @property
    def figures(self) -> Sequence[str]:
        """The one figure."""
        return (self.figure,)

    @property
    def num_rows(self) -> int:
        """As many as have to be out of bounds."""
        return self.num_steps

    def judge(self, rows: Sequence[Row]) -> Evidence | None:
        """Compare every row with the bounds; a figure that is no number is out of them."""
        values = [value for (value,) in rows]
        if len(values) < self.num_steps or any(self.low <= value <= self.high for value in values):
            return None
        bound = f"below {self.low:g}" if values[-1] < self.low else f"above {self.high:g}"
        lasting = f", for {self.num_steps} steps in a row" if self.num_steps > 1 else ""
        return Evidence(
            reason=f"{self.figure} {values[-1]:.4g} is {bound}{lasting}", num_steps=self.num_steps
        )
