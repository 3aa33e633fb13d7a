"""A reward that rises while play gets worse."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import Final, final

from earl_trainer.guards.guard import Evidence, Row

CHECKUP_STEP: Final = "checkup/step"
"""Metric: the step of the latest checkup."""
CHECKUP_SCORE: Final = "checkup/score"
"""Metric: points per game in it, over all its fixed opponents."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RewardHacking:
    """Finds a training reward that rose over the latest checkups while their score fell.

    What is trained on is a proxy of what is wanted; optimised far enough the two part (Gao,
    Schulman and Hilton, "Scaling Laws for Reward Model Overoptimization", arXiv:2210.10760; Skalse
    et al., "Defining and Characterizing Reward Hacking", arXiv:2209.13085). The reward of a
    checkup is the mean over the steps from it to the next; of the last checkup those that there are
    so far.
    """

    least_drop: float
    """Points per game by which the score has to fall."""
    num_checkups: int
    """From the first to the last that are compared; 2 at least."""
    every_steps: int
    """Steps from one checkup to the next."""

    @property
    def figures(self) -> Sequence[str]:
        """Reward, and the latest checkup with its score."""
        return ("reward/mean", CHECKUP_STEP, CHECKUP_SCORE)

    @property
    def num_rows(self) -> int:
        """The steps from the first of the checkups to the end of the last one's."""
        return self.num_checkups * self.every_steps

    def judge(self, rows: Sequence[Row]) -> Evidence | None:
        """Compare the first and the last of the checkups."""
        checkups = [list(group) for _, group in groupby(rows, key=lambda row: row[1])]
        compared = checkups[-self.num_checkups :]
        if len(compared) < self.num_checkups:
            return None
        first, last = compared[0], compared[-1]
        reward, reward_before = (fmean(row[0] for row in part) for part in (last, first))
        score, score_before = last[0][2], first[0][2]
        if reward <= reward_before or score > score_before - self.least_drop:
            return None
        return Evidence(
            reason=f"mean reward rose from {reward_before:.4g} to {reward:.4g} while the score of "
            f"checkups fell from {score_before:.3g} to {score:.3g}",
            # The weights of the first checkup are good.
            num_steps=sum(len(part) for part in compared) - 1,
        )
