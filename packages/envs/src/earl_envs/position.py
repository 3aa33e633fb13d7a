"""What the rules say about one state, asked once and checked."""

import math
import operator
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import SupportsFloat, SupportsIndex, cast

from earl_envs.game import Game


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A state with the answers of its game's rules."""

    state: Hashable
    """The game's own state."""
    seat: int
    """The seat to move, -1 when the game is over."""
    legal: tuple[int, ...]
    """The actions open to that seat, empty when the game is over."""
    returns: tuple[float, ...] | None
    """One score per seat, None while the game runs."""


def examine(game: Game, state: Hashable) -> Position:
    """Ask the rules about a state and refuse answers that break the contract of `Game`.

    Raises:
        ValueError: If the rules contradict `num_seats` or `num_actions`, leave a running game
            without a move, score a seat with a number that is not finite, or answer with something
            that is no number or no list of numbers at all.
        Exception: Whatever the rules raise.
    """
    returns = game.returns(state)
    if returns is not None:
        return Position(state=state, seat=-1, legal=(), returns=_checked_returns(game, returns))
    seat = _checked_seat(game, game.seat(state))
    legal = _checked_legal(game, game.legal(state))
    return Position(state=state, seat=seat, legal=legal, returns=None)


# What the rules answer is `object` here, since nobody has checked it. operator.index turns NumPy's
# integers into Python's and refuses floats.


def _checked_returns(game: Game, returns: object) -> tuple[float, ...]:
    try:
        scores = tuple(map(float, cast("Iterable[SupportsFloat]", returns)))
    except (TypeError, ValueError):
        scores = None
    if scores is None or len(scores) != game.num_seats or not all(map(math.isfinite, scores)):
        raise ValueError(f"returns() must be {game.num_seats} finite scores, got {returns!r}")
    return scores


def _checked_seat(game: Game, seat: object) -> int:
    try:
        number = operator.index(cast("SupportsIndex", seat))
    except TypeError:
        number = -1
    if not 0 <= number < game.num_seats:
        raise ValueError(f"seat() must be in 0..{game.num_seats - 1}, got {seat!r}")
    return number


def _checked_legal(game: Game, legal: object) -> tuple[int, ...]:
    try:
        actions = tuple(map(operator.index, cast("Iterable[SupportsIndex]", legal)))
    except TypeError:
        rule = f"integers in 0..{game.num_actions - 1}"
        raise ValueError(f"legal() must be a list of {rule}, got {legal!r}") from None
    if not actions:
        raise ValueError("legal() must not be empty while returns() is None")
    if min(actions) < 0 or max(actions) >= game.num_actions:
        raise ValueError(f"legal() must be in 0..{game.num_actions - 1}, got {actions}")
    return actions
