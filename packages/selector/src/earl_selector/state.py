"""What the selector remembers between two decisions."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

from earl_selector.report import ContextReport


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorState:
    """State of a `SelectorPolicy`: made by `init`, replaced by every `update`, never changed.

    Example:
        >>> state = SelectorState(tp=None, reports=(), num_low_updates=0, low_peak_tokens=0)
        >>> SelectorState.from_dict(state.to_dict()) == state
        True
    """

    tp: int | None
    """The degree decided last; None before the first decision."""
    reports: tuple[ContextReport, ...]
    """The latest reports, oldest first."""
    num_low_updates: int
    """For how many updates in a row the forecast has lain under the margin of a smaller degree."""
    low_peak_tokens: int
    """The highest forecast among these updates."""

    def to_dict(self) -> dict[str, object]:
        """Return the state as plain values that JSON can hold."""
        return {
            "tp": self.tp,
            "reports": [asdict(report) for report in self.reports],
            "num_low_updates": self.num_low_updates,
            "low_peak_tokens": self.low_peak_tokens,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SelectorState":  # Any: parsed JSON
        """Rebuild a state from what `to_dict` returned, before or after a trip through JSON."""
        return cls(
            tp=values["tp"],
            reports=tuple(ContextReport(**report) for report in values["reports"]),
            num_low_updates=values["num_low_updates"],
            low_peak_tokens=values["low_peak_tokens"],
        )
