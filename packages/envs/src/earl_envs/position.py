"""What the rules say about one state, asked once and checked."""

import math
import operator
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import SupportsFloat

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
            without a move, or score a seat with a number that is not finite.
        Exception: Whatever the rules raise.
    """
    returns = game.returns(state)
    if returns is not None:
        return Position(state=state, seat=-1, legal=(), returns=_checked_returns(game, returns))
    # operator.index turns numpy integers into int and refuses floats.
    seat = operator.index(game.seat(state))
    legal = tuple(map(operator.index, game.legal(state)))
    if not 0 <= seat < game.num_seats:
        raise ValueError(f"seat() must be in 0..{game.num_seats - 1}, got {seat}")
    if not legal:
        raise ValueError("legal() must not be empty while returns() is None")
    if min(legal) < 0 or max(legal) >= game.num_actions:
        raise ValueError(f"legal() must be in 0..{game.num_actions - 1}, got {legal}")
    return Position(state=state, seat=seat, legal=legal, returns=None)


def _checked_returns(game: Game, returns: Iterable[SupportsFloat]) -> tuple[float, ...]:
    scores = tuple(map(float, returns))
    if len(scores) != game.num_seats or not all(map(math.isfinite, scores)):
        raise ValueError(f"returns() must be {game.num_seats} finite scores, got {scores}")
    return scores
