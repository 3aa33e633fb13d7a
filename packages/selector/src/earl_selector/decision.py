"""What the selector decides for one rollout, and why."""

from dataclasses import dataclass
from typing import final


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
    """Resident tokens that fit at `tp`."""
    feasible: tuple[int, ...]
    """The degrees that hold the forecast, ascending."""
    steps_to_limit: int | None
    """In how many steps, at the growth observed, the contexts reach their limit or the resident
    tokens the capacity of the largest degree; 0 if they have, None if neither is growing."""

    @property
    def queues(self) -> bool:
        """Tell whether no degree holds the forecast, so that some responses wait for others."""
        return not self.feasible

    @property
    def switches(self) -> bool:
        """Tell whether an engine that runs already has to change its degree."""
        return self.previous_tp is not None and self.previous_tp != self.tp
