"""Othello on eight by eight squares, as two bitboards.

Rules of the World Othello Federation (https://www.worldothello.org/about/about-othello/
othello-rules): a disc must flip at least one; a seat without such a move passes; the game ends when
neither has one. A pass is a move of its own here, so that seats always alternate.
"""

from collections.abc import Iterator
from typing import final

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game

Discs = tuple[int, int, int]
"""Squares held by seat 0 and by seat 1, bit 8 * row + column from the top left, and the seat to
move."""

PASS = 64
"""The action of a seat that has no move."""

FULL = 2**64 - 1
_NOT_A = 0xFEFE_FEFE_FEFE_FEFE
_NOT_H = 0x7F7F_7F7F_7F7F_7F7F

DIRECTIONS = (
    (1, _NOT_A),
    (-1, _NOT_H),
    (8, FULL),
    (-8, FULL),
    (9, _NOT_A),
    (-9, _NOT_H),
    (7, _NOT_H),
    (-7, _NOT_A),
)
"""Steps to a neighbour: the change of the bit's number, and the squares that it can lead to."""


def moves(own: int, other: int) -> int:
    """Return the squares where the owner of `own` flips at least one disc."""
    empty, found = FULL & ~(own | other), 0
    for by, mask in DIRECTIONS:
        run = _step(own, by, mask) & other
        for _ in range(5):  # six discs at most lie between two others
            run |= _step(run, by, mask) & other
        found |= _step(run, by, mask) & empty
    return found


def flips(own: int, other: int, square: int) -> int:
    """Return the discs of `other` that a disc of `own` on `square` turns over."""
    turned = 0
    for by, mask in DIRECTIONS:
        run, cell = 0, _step(1 << square, by, mask)
        while cell & other:
            run |= cell
            cell = _step(cell, by, mask)
        if cell & own:
            turned |= run
    return turned


def _step(squares: int, by: int, mask: int) -> int:
    return (squares << by if by > 0 else squares >> -by) & mask


def _numbers(squares: int) -> Iterator[int]:
    while squares:
        lowest = squares & -squares
        yield lowest.bit_length() - 1
        squares ^= lowest


@final
class Othello(Game[Discs]):
    """Discs between two of the other colour turn over; most discs win.

    Perfect play draws (Hiroki Takizawa, "Othello is Solved", arXiv:2310.19387).
    """

    num_seats = 2
    num_actions = 65
    # The four discs of the start leave 60 squares, and every pass is followed by a disc: had the
    # other seat no move either, the game would be over. The first move is no pass.
    max_moves = 60 + 59
    solved_value = (0.0, 0.0)

    def initial(self, rng: np.random.Generator) -> Discs:
        """Return the start: seat 0 on d5 and e4, seat 1 on d4 and e5."""
        return (1 << 28 | 1 << 35, 1 << 27 | 1 << 36, 0)

    def seat(self, state: Discs) -> int:
        """Return the seat kept in the state."""
        return state[2]

    def legal(self, state: Discs) -> list[int]:
        """Return the squares that flip a disc, `PASS` where only the other seat has one."""
        own, other = state[state[2]], state[1 - state[2]]
        found = moves(own, other)
        return list(_numbers(found)) if found or not moves(other, own) else [PASS]

    def apply(self, state: Discs, action: int) -> Discs:
        """Place a disc on square `action` and turn over what it encloses, or pass."""
        first, second, seat = state
        if action == PASS:
            return (first, second, 1 - seat)
        turned = flips(state[seat], state[1 - seat], action)
        placed = turned | 1 << action
        if seat == 0:
            return (first | placed, second & ~turned, 1)
        return (first & ~turned, second | placed, 0)

    def returns(self, state: Discs) -> tuple[float, float] | None:
        """Score more discs 1, fewer -1 and as many 0, once neither seat has a move."""
        first, second, _ = state
        if moves(first, second) or moves(second, first):
            return None
        lead = first.bit_count() - second.bit_count()
        score = float((lead > 0) - (lead < 0))
        return (score, -score)

    def planes(self, state: Discs, seat: int) -> NDArray[np.uint8]:
        """Return own discs and the opponent's. [2, 8, 8]."""
        squares = np.array([state[seat], state[1 - seat]], "<u8").view(np.uint8)
        return np.unpackbits(squares, bitorder="little").reshape(2, 8, 8)

    def text(self, state: Discs, seat: int) -> str:
        """Draw the board with its labels: own discs X, the opponent's O, empty `.`."""
        own, other = state[seat], state[1 - seat]
        marks = [
            "X" if own >> square & 1 else "O" if other >> square & 1 else "."
            for square in range(64)
        ]
        rows = [" ".join((str(r + 1), *marks[8 * r : 8 * r + 8])) for r in range(8)]
        return "\n".join(("  a b c d e f g h", *rows))

    def move_name(self, state: Discs, action: int) -> str:
        """Name a square by column and row, such as `[d3]`, and a pass `[pass]`."""
        return "[pass]" if action == PASS else f"[{'abcdefgh'[action % 8]}{action // 8 + 1}]"

    def rules(self) -> str:
        """Explain aim, board and reply."""
        return (
            "Othello. X is you, O is your opponent, a dot is an empty square. A new disc must "
            "enclose one or more O in a line between itself and another X; they turn into X. Most "
            "discs win when nobody can move. Reply with an empty square in square brackets, such "
            "as [d3], or [pass] only if you have no move."
        )
