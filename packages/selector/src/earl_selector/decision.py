"""What the selector decides for one rollout, and why."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Final, cast, final

from earl_selector.report import ContextReport

_NEAR_STEPS: Final = 10


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One degree that could have been chosen."""

    tp: int
    capacity_tokens: int
    rollout_s: float
    """What the next rollout is predicted to take at this degree."""
    dwell_steps: float
    """For how many rollouts it is expected to stay on the same side of the current degree."""
    round_trip_s: float
    """What going there and coming back costs."""
    share_in_use: float | int = 1
    """Of the devices, as far as those that idle are of use to others."""

    @property
    def cost_s(self) -> float:
        """Return what degrees are compared by: the rollout's time, for the devices in use."""
        return self.rollout_s * self.share_in_use

    def net_gain_s(self, current: "Alternative") -> float:
        """Return what leaving `current` for this degree is expected to save in the end."""
        return (current.cost_s - self.cost_s) * self.dwell_steps - self.round_trip_s


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a decision was made from."""

    num_responses: int
    """Of the next rollout."""
    context_tokens: int
    """That each of them is forecast to reach on average."""
    growth_tokens_per_step: float | None
    """Of resident tokens, as fitted; None before the first rollout."""
    switch_s: float | int | None
    """What a change of degree is taken to cost; None where the policy does not ask."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the rollout that followed a decision turned out to be."""

    resident_tokens: int
    queued: bool
    """Whether more tokens were wanted than the degree holds, so that responses waited."""
    rollout_s: float | None
    """None if nobody measured it."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The tensor-parallel degree of the next rollout, with the figures that led to it."""

    tp: int
    previous_tp: int | None
    """The degree before; None at the first decision."""
    reason: str
    """One line for people."""
    forecast_tokens: int
    """Resident tokens expected in the next rollout."""
    capacity_tokens: int
    """Resident tokens that fit at `tp`, in all engines that share the load reported."""
    feasible: tuple[int, ...]
    """The degrees that hold the forecast, ascending."""
    steps_to_limit: int | None
    """In how many steps, at the growth observed, the contexts reach their limit or the resident
    tokens the largest capacity of any degree; 0 if they have, None if neither is growing."""
    alternatives: tuple[Alternative, ...] = ()
    """Every degree that was weighed, ascending; none where the policy weighs nothing."""
    in_seconds: bool = True
    """Whether the times of `alternatives` are seconds, and not an order that was only assumed."""
    max_responses: int | None = None
    """To how many responses in flight the rollout is held; None leaves them as they are."""
    inputs: Inputs | None = None
    """What it was made from; None where nobody said."""
    outcome: Outcome | None = None
    """What came of it; None before the rollout."""

    @property
    def queues(self) -> bool:
        """Tell whether no degree holds the forecast, so that some responses wait for others."""
        return not self.feasible

    @property
    def switches(self) -> bool:
        """Tell whether an engine that runs already has to change its degree."""
        return self.previous_tp is not None and self.previous_tp != self.tp

    @property
    def limit_notice(self) -> str | None:
        """Announce, for people, a limit that is at most ten steps away; None if there is none."""
        if self.steps_to_limit is None or self.steps_to_limit > _NEAR_STEPS:
            return None
        if self.steps_to_limit == 0:
            return "contexts have reached their limit, or fill the memory"
        return f"contexts reach their limit, or fill the memory, in {self.steps_to_limit} steps"

    @property
    def predicted_s(self) -> float | None:
        """Return what the next rollout is predicted to take; None where nobody can say."""
        weighed = self.alternatives if self.in_seconds else ()
        return next((each.rollout_s for each in weighed if each.tp == self.tp), None)

    def observe(self, report: ContextReport) -> "Decision":
        """Return the decision together with what the rollout after it turned out to be."""
        outcome = Outcome(
            resident_tokens=report.resident_tokens,
            queued=report.resident_tokens > self.capacity_tokens,
            rollout_s=report.rollout_s,
        )
        return replace(self, outcome=outcome)

    def to_dict(self) -> dict[str, object]:
        """Return the decision as plain values for JSON; a figure that is not finite is None."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast("Sequence[object]", value)]
    if isinstance(value, float):
        # Six digits: it is written at every step.
        return float(f"{value:.6g}") if isfinite(value) else None
    return value
