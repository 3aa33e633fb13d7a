"""What a guard is: a pure judge of the latest figures of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

Row = Sequence[float]
"""The figures of one step, in the order in which the guard names them."""


class Action(StrEnum):
    """What follows when a guard finds something."""

    OFF = "off"
    """It is not watched for."""
    WARN = "warn"
    """The run says so and goes on."""
    STOP = "stop"
    """The run ends as if it had made all its steps."""
    ROLL_BACK = "roll-back"
    """The run goes on from the last checkpoint before it, otherwise than it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a guard has found."""

    reason: str
    """In a few words, with the numbers."""
    num_steps: int = 1
    """Latest steps that show it; what went wrong did so before them."""


@runtime_checkable
class Guard(Protocol):
    """Watches for one kind of failure.

    It is a function of at most `num_rows` rows, the latest last, and keeps nothing itself.
    """

    @property
    def figures(self) -> Sequence[str]:
        """Names of the metrics that it looks at; a step without one of them is passed over."""
        ...

    @property
    def num_rows(self) -> int:
        """The most rows that it looks at."""
        ...

    def judge(self, rows: Sequence[Row]) -> Evidence | None:
        """Say what is wrong as of the last row, if anything is; there is one row at least."""
        ...
