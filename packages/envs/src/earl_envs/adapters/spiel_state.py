"""The immutable state of a game whose rules OpenSpiel holds."""

from dataclasses import dataclass, field
from typing import Any, final


@dataclass(slots=True)
class SpielNode:
    """What was worked out about a state; OpenSpiel's own state in it is never stepped."""

    spiel: Any  # OpenSpiel's states are opaque
    names: dict[int, str] | None = None
    """Names of the legal actions, once somebody asked."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SpielState:
    """Where a game stands: every action so far, and what decides the chance to come."""

    history: tuple[int, ...]
    """Actions of players and of chance, as OpenSpiel numbers them."""
    seed: int
    """The seed of all chance in this game."""
    memo: list[SpielNode] = field(default_factory=list[SpielNode], compare=False, repr=False)
    """Empty or one node, since OpenSpiel's state follows from the rest; copies go without."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _state, (self.history, self.seed)


def _state(history: tuple[int, ...], seed: int) -> SpielState:
    return SpielState(history=history, seed=seed)
