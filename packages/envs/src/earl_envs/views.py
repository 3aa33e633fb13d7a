"""What a seat sees of a game as an array of one shape, whatever its rules answer."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earl_envs.batch_base import padded_moves
from earl_envs.boundary import Failure, attempt
from earl_envs.game import Game
from earl_envs.position import Position
from earl_envs.record import start_position


def view(
    game: Game, position: Position, moves: Sequence[int], *, like: NDArray[Any]
) -> NDArray[Any]:
    """Return the planes for the seat to move (for seat 0 at the end), without planes the moves.

    Raises:
        ValueError: If that is not an array of the shape and type of `like`.
        Exception: Whatever the game's `planes` raises.
    """
    return view_of_seat(game, position.state, max(position.seat, 0), moves, like=like)


def view_of_seat(
    game: Game, state: Hashable, seat: int, moves: Sequence[int], *, like: NDArray[Any]
) -> NDArray[Any]:
    """Do what `view` does, for any seat."""
    planes = game.planes(state, seat)
    seen = padded_moves(moves, game.max_moves) if planes is None else planes
    if not _is_like(seen, like):
        raise ValueError(f"planes() must always be {_kind(like)}, got {_kind(planes)}")
    return seen


def empty_view(game: Game, seeds: Sequence[int]) -> NDArray[Any]:
    """Return a view with nothing in it, shaped like the first of the starts that can be seen.

    It is 0 everywhere, or -1 where moves are shown.
    """
    for seed in seeds:
        planes: object = attempt(_start_planes, game, seed)
        if isinstance(planes, np.ndarray):
            return np.zeros(planes.shape, np.uint8)
        if not isinstance(planes, Failure):
            break
    return padded_moves([], game.max_moves)


def _start_planes(game: Game, seed: int) -> object:
    return game.planes(start_position(game, seed).state, 0)


def _is_like(seen: object, like: NDArray[Any]) -> bool:
    return isinstance(seen, np.ndarray) and (seen.shape, seen.dtype) == (like.shape, like.dtype)


def _kind(seen: object) -> str:
    return f"{seen.dtype} {seen.shape}" if isinstance(seen, np.ndarray) else repr(seen)
