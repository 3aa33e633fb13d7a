"""What a compiled batch needs to know about a game."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, final

RUNNING = 2
"""The outcome of a move that does not end the game; -1, 0 and 1 are scores of who made it."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRules:
    """Compiled rules of a game of two seats in turn whose state is two sets of cells.

    The functions are compiled into the loops of `earl_envs.kernels.stepping`. `own` and `other` are
    the cells of the seat to move and of its opponent, `legal` are its moves, as bits.
    """

    planes_shape: tuple[int, int, int]
    """Of an observation: 2, rows, columns."""
    num_actions: int
    """As in `Game`."""
    max_moves: int
    """As in `Game`."""
    start: tuple[int, int, int]
    """`own`, `other` and `legal` of the first position."""
    move: Callable[..., Any]
    """(own, other, action) -> own, other, legal of the next seat, and the outcome."""
    is_legal: Callable[..., Any]
    """(legal, action) -> whether a running game has this move, for any int64."""
    pick: Callable[..., Any]
    """(legal, draw) -> one of the moves, for a draw from 0 to 2**31 - 1."""
    show: Callable[..., Any]
    """(block, start, index, own, other) -> None: writes the planes of a game as bytes."""
    show_mask: Callable[..., Any]
    """(block, start, index, legal, running) -> None: writes the mask of a game as bytes."""
    state: Callable[[int, int, int], Hashable]
    """(cells of seat 0, of seat 1, number of moves) -> the state of the game's own rules."""
