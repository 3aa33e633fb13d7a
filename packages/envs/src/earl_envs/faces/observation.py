"""What a seat is shown as numbers: the board array, or the moves made so far."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from earl_envs.game import Game
from earl_envs.record import start_position
from earl_envs.views import view_of_seat

Board = NDArray[Any]  # Any: uint8 or int32
"""The game's planes, or where it has none the list of its moves."""


def board_space(game: Game) -> Box:
    """Return the space of `observe`, found by looking at one start of the game.

    Raises:
        Exception: Whatever the game's `initial` or `planes` raises.
    """
    planes: object = game.planes(start_position(game, 0).state, 0)
    if not isinstance(planes, np.ndarray):
        return Box(-1, game.num_actions - 1, (game.max_moves,), np.int32)
    return Box(0, 255, planes.shape, np.uint8)


def observe(game: Game, state: Hashable, seat: int, moves: Sequence[int], *, like: Board) -> Board:
    """Return what `seat` sees, in a new array.

    Returns:
        The game's `planes`, uint8, or without them the moves made so far, padded with -1 to
        `max_moves`, int32.

    Raises:
        ValueError: If that is not an array of the shape and type of `like`.
        Exception: Whatever the game's `planes` raises.
    """
    return view_of_seat(game, state, seat, moves, like=like).copy()


def action_mask(num_actions: int, legal: Sequence[int]) -> NDArray[np.int8]:
    """Return 1 for every legal action and 0 for the others, as `Discrete.sample` takes it."""
    mask = np.zeros(num_actions, np.int8)
    mask[list(legal)] = 1
    return mask
