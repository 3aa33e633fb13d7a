"""Connect Four on seven columns of six cells, as two bitboards.

Layout and line test follow John Tromp's Fhourstones (https://tromp.github.io/c4/c4.html): a column
takes seven bits, six cells from the bottom up and one that stays empty, so that no shift carries a
stone into the neighbouring column.
"""

from typing import final

import numpy as np

from earl_envs.game import Game

Stones = tuple[int, int]
"""Cells held by seat 0 and by seat 1: bit 7 * column + height."""

_NUM_COLUMNS, _NUM_ROWS = 7, 6
_STRIDE = _NUM_ROWS + 1
_FLOORS = tuple(1 << _STRIDE * column for column in range(_NUM_COLUMNS))
_TOPS = tuple(floor << _NUM_ROWS - 1 for floor in _FLOORS)
_FULL = sum(floor * (2**_NUM_ROWS - 1) for floor in _FLOORS)
_DIRECTIONS = (1, _STRIDE, _STRIDE - 1, _STRIDE + 1)  # up, right, right and down, right and up
_HEADER = " ".join(str(column + 1) for column in range(_NUM_COLUMNS))


def _has_four(cells: int) -> bool:
    for shift in _DIRECTIONS:
        pairs = cells & cells >> shift
        if pairs & pairs >> 2 * shift:
            return True
    return False


@final
class ConnectFour(Game[Stones]):
    """Four in a row, stones fall to the lowest empty cell. Perfect play wins for seat 0."""

    num_seats = 2
    num_actions = _NUM_COLUMNS
    max_moves = _NUM_COLUMNS * _NUM_ROWS

    def initial(self, rng: np.random.Generator) -> Stones:
        """Return the empty board."""
        return (0, 0)

    def seat(self, state: Stones) -> int:
        """Return 0 and 1 in turn."""
        return (state[0] | state[1]).bit_count() & 1

    def legal(self, state: Stones) -> list[int]:
        """Return the columns with an empty cell, none once the game is over."""
        first, second = state
        if _has_four(first) or _has_four(second):
            return []
        taken = first | second
        return [column for column, top in enumerate(_TOPS) if not taken & top]

    def apply(self, state: Stones, action: int) -> Stones:
        """Drop a stone of the seat to move into column `action`."""
        first, second = state
        taken = first | second
        # Adding 1 at a column's floor carries through its stones to the lowest empty cell.
        stone = (taken + _FLOORS[action]) & ~taken & _TOPS[action] * 2 - _FLOORS[action]
        if taken.bit_count() & 1:
            return (first, second | stone)
        return (first | stone, second)

    def returns(self, state: Stones) -> tuple[float, float] | None:
        """Score four in a row 1 for its owner and -1 for the opponent, a full board 0."""
        first, second = state
        if _has_four(first):
            return (1.0, -1.0)
        if _has_four(second):
            return (-1.0, 1.0)
        return (0.0, 0.0) if first | second == _FULL else None

    def text(self, state: Stones, seat: int) -> str:
        """Draw the board under its column numbers: own stones X, the opponent's O, empty `.`."""
        own, other = state[seat], state[1 - seat]
        rows = [
            " ".join(
                "X" if own & floor << height else "O" if other & floor << height else "."
                for floor in _FLOORS
            )
            for height in reversed(range(_NUM_ROWS))
        ]
        return "\n".join((_HEADER, *rows))

    def move_name(self, state: Stones, action: int) -> str:
        """Name a column by its number, `[1]` to `[7]`."""
        return f"[{action + 1}]"

    def rules(self) -> str:
        """Explain aim, board and reply."""
        return (
            "Connect Four. X is you, O is your opponent, a dot is an empty cell. A stone falls to "
            "the lowest empty cell of its column. Four in a row, column or diagonal wins. Reply "
            "with the number of a column that is not full in square brackets, such as [4]."
        )
