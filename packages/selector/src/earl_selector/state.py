"""What a policy remembers between two decisions."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

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
    time_scale: float = 1.0
    """Measured seconds per predicted second of the latest rollout that was timed."""

    def to_dict(self) -> dict[str, object]:
        """Return the state as plain values that JSON can hold."""
        return {
            "tp": self.tp,
            "reports": [asdict(report) for report in self.reports],
            "switch_s": self.switch_s,
            "time_scale": self.time_scale,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SelectorState":  # Any: parsed JSON
        """Rebuild a state from what `to_dict` returned, before or after a trip through JSON."""
        return cls(
            tp=values["tp"],
            reports=tuple(ContextReport(**report) for report in values["reports"]),
            switch_s=values["switch_s"],
            time_scale=values["time_scale"],
        )
