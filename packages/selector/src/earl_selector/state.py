"""What a policy remembers between two decisions."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, final

from earl_selector.refusal import Refusal
from earl_selector.report import ContextReport


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorState:
    """State of a policy: made by `init`, replaced by every `update`, never changed.

    Example:
        >>> state = SelectorState(tp=None, reports=())
        >>> SelectorState.from_dict(state.to_dict()) == state
        True
    """

    tp: int | None
    """The degree decided last; None before the first decision."""
    reports: tuple[ContextReport, ...]
    """The latest reports, oldest first."""
    switch_s: float | None = None
    """What the latest change of degree took; None while none was measured."""
    time_scale: float | None = None
    """Measured seconds per predicted second of the latest rollout that was timed; None before."""
    refusals: tuple[Refusal, ...] = ()
    """One per degree that the engine did not take and has not run at since."""

    @property
    def last_step(self) -> int:
        """Return the step of the latest rollout; -1 before the first."""
        return self.reports[-1].step if self.reports else -1

    def refuse(self, current_tp: int) -> "SelectorState":
        """Return the state after the engine did not take the degree decided.

        Args:
            current_tp: The degree that it stays at.
        """
        assert self.tp is not None, "a decision comes first"
        others = tuple(each for each in self.refusals if each.tp != self.tp)
        num_times = sum(each.num_times for each in self.refusals if each.tp == self.tp)
        refusal = Refusal(tp=self.tp, step=self.last_step, num_times=num_times + 1)
        return replace(self, tp=current_tp, refusals=(*others, refusal))

    def to_dict(self) -> dict[str, object]:
        """Return the state as plain values that JSON can hold."""
        return {
            "tp": self.tp,
            "reports": [asdict(report) for report in self.reports],
            "switch_s": self.switch_s,
            "time_scale": self.time_scale,
            "refusals": [asdict(refusal) for refusal in self.refusals],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SelectorState":  # Any: parsed JSON
        """Rebuild a state from what `to_dict` returned, before or after a trip through JSON."""
        return cls(
            tp=values["tp"],
            reports=tuple(ContextReport(**report) for report in values["reports"]),
            switch_s=values["switch_s"],
            time_scale=values["time_scale"],
            refusals=tuple(Refusal(**refusal) for refusal in values["refusals"]),
        )
