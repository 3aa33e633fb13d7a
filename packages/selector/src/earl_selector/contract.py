"""What every policy offers, whatever it goes by."""

from typing import Protocol, runtime_checkable

from earl_selector.capacity import CapacityModel
from earl_selector.decision import Decision
from earl_selector.deployment import Fleet
from earl_selector.report import ContextReport
from earl_selector.state import SelectorState


@runtime_checkable
class Policy(Protocol):
    """Anything that decides before each rollout."""

    @property
    def memory(self) -> CapacityModel:
        """Return what one engine holds."""
        ...

    @property
    def fleet(self) -> Fleet:
        """Return the engines that the devices form at each degree."""
        ...

    @property
    def usable_degrees(self) -> tuple[int, ...]:
        """Return the degrees that it may decide for, ascending."""
        ...

    def init(self) -> SelectorState:
        """Return the state before the first decision."""
        ...

    def update(
        self,
        state: SelectorState,
        report: ContextReport | None,
        *,
        current_tp: int | None = None,
        num_responses: int | None = None,
    ) -> tuple[Decision, SelectorState]:
        """Decide on the next rollout.

        Args:
            state: What `init` or the last `update` returned.
            report: The rollout since then; None before the first, or where nothing new is known.
            current_tp: The degree that is left now, where it is another than that of the rollout.
            num_responses: Of the next rollout; None for as many as in the last one.
        """
        ...
