"""What became of a reward that a function was to compute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class RewardFailure(StrEnum):
    """Why there is no reward."""

    TIMEOUT = "timeout"
    """It took too long, by the clock or of the processor."""
    MEMORY = "memory"
    """It wanted more memory than it may have."""
    CRASH = "crash"
    """Its process ended."""
    ERROR = "error"
    """The function raised, or returned neither a finite number nor one for each reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardOutcome:
    """What a job came to: a value, or why there is none."""

    value: float | None = None
    """Of the episode: the sum of the parts, where there are any."""
    parts: Sequence[float] = ()
    """[replies] what of it each reply is rewarded by; empty where the function does not say."""
    failure: RewardFailure | None = None
    detail: str = ""
    """What went wrong, in one line."""
    took_s: float = 0.0
    """From handing the job to a process to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the functions say of one episode."""

    outcomes: Mapping[str, RewardOutcome]
    """By the name of the function."""
    bonus: float | None
    """Their weighted sum; None where the episode is not to be trained on, as one of them failed."""
    parts: Sequence[float] = ()
    """[replies] the weighted sum of what functions say of each reply, contained in `bonus`; empty
    where none says anything."""

    @property
    def detail(self) -> str:
        """What went wrong, when something did."""
        return "; ".join(
            f"reward {name}: {outcome.failure}: {outcome.detail}"
            for name, outcome in self.outcomes.items()
            if outcome.failure is not None
        )


def weighted_sum(
    outcomes: Mapping[str, RewardOutcome],
    weights: Mapping[str, float],
    on_failure: Literal["drop", "zero"],
) -> float | None:
    """Add up values by their weights; None if one is missing and a failure drops the episode.

    Args:
        outcomes: By name.
        weights: Of all that count, by name.
        on_failure: Whether a failure leaves the episode out of training, or counts 0.
    """
    total = 0.0
    for name, weight in weights.items():
        value = outcomes[name].value
        if value is None and on_failure == "drop":
            return None
        total += weight * (value or 0.0)
    return total


def judgement_metrics(judgements: Sequence[Judgement]) -> dict[str, float]:
    """Return what there is to report: failures by kind, episodes left out, means of functions.

    A mean is over the episodes of which the function has a value; without any there is none.
    """
    if not judgements:
        return {}
    outcomes = [outcome for each in judgements for outcome in each.outcomes.values()]
    figures = {
        f"reward/{kind}_failures": float(sum(outcome.failure is kind for outcome in outcomes))
        for kind in RewardFailure
    }
    figures["reward/dropped_episodes"] = float(sum(each.bonus is None for each in judgements))
    figures["reward/job_s"] = sum(outcome.took_s for outcome in outcomes) / len(outcomes)
    for name in judgements[0].outcomes:
        values = [each.outcomes[name].value for each in judgements]
        known = [value for value in values if value is not None]
        if known:
            figures[f"reward/mean_{name}"] = sum(known) / len(known)
    return figures
