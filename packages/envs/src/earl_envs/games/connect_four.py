"""Connect Four on a board of any size, as two bitboards.

Layout and line test follow John Tromp's Fhourstones (https://tromp.github.io/c4/c4.html): a column
takes a bit per cell from the bottom up and one more that stays empty, so that no shift carries a
stone into the neighbouring column.
"""

from typing import final

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game

Stones = tuple[int, int]
"""Cells held by seat 0 and by seat 1: bit (rows + 1) * column + height."""


@final
class ConnectFour(Game[Stones]):
    """Four in a row, stones fall to the lowest empty cell.

    On the usual board perfect play wins for seat 0 (James D. Allen and Victor Allis, 1988).
    """

    num_seats = 2

    def __init__(self, *, rows: int = 6, columns: int = 7, connect: int = 4) -> None:
        if min(rows, columns) < 1:
            raise ValueError(f"rows and columns must be >= 1, got {rows} and {columns}")
        if not 2 <= connect <= max(rows, columns):
            raise ValueError(f"connect must be in 2..{max(rows, columns)}, got {connect}")
        self.rows, self.columns, self.connect = rows, columns, connect
        self.num_actions = columns
        self.max_moves = rows * columns
        self.solved_value = (1.0, -1.0) if (rows, columns, connect) == (6, 7, 4) else None
        self._floors = tuple(1 << (rows + 1) * column for column in range(columns))
        self._tops = tuple(floor << rows - 1 for floor in self._floors)
        self._full = sum(floor * (2**rows - 1) for floor in self._floors)
        # Up, right, right and down, right and up.
        self._directions = (1, rows + 1, rows, rows + 2)

    def initial(self, rng: np.random.Generator) -> Stones:
        """Return the empty board."""
        return (0, 0)

    def seat(self, state: Stones) -> int:
        """Return 0 and 1 in turn."""
        return (state[0] | state[1]).bit_count() & 1

    def legal(self, state: Stones) -> list[int]:
        """Return the columns with an empty cell, none once the game is over."""
        first, second = state
        if self._has_line(first) or self._has_line(second):
            return []
        taken = first | second
        return [column for column, top in enumerate(self._tops) if not taken & top]

    def apply(self, state: Stones, action: int) -> Stones:
        """Drop a stone of the seat to move into column `action`."""
        first, second = state
        taken = first | second
        # Adding 1 at a column's floor carries through its stones to the lowest empty cell.
        column = self._tops[action] * 2 - self._floors[action]
        stone = (taken + self._floors[action]) & ~taken & column
        if taken.bit_count() & 1:
            return (first, second | stone)
        return (first | stone, second)

    def returns(self, state: Stones) -> tuple[float, float] | None:
        """Score a line 1 for its owner and -1 for the opponent, a full board 0."""
        first, second = state
        if self._has_line(first):
            return (1.0, -1.0)
        if self._has_line(second):
            return (-1.0, 1.0)
        return (0.0, 0.0) if first | second == self._full else None

    def planes(self, state: Stones, seat: int) -> NDArray[np.uint8]:
        """Return own stones and the opponent's, the top row first. [2, rows, columns]."""
        return np.stack([self._plane(state[seat]), self._plane(state[1 - seat])])

    def text(self, state: Stones, seat: int) -> str:
        """Draw the board under its column numbers: own stones X, the opponent's O, empty `.`."""
        own, other = state[seat], state[1 - seat]
        width = len(str(self.columns))
        lines = [[str(column + 1) for column in range(self.columns)]]
        lines += [
            [
                "X" if own & floor << height else "O" if other & floor << height else "."
                for floor in self._floors
            ]
            for height in reversed(range(self.rows))
        ]
        return "\n".join(" ".join(cell.rjust(width) for cell in line) for line in lines)

    def move_name(self, state: Stones, action: int) -> str:
        """Name a column by its number, from `[1]` on."""
        return f"[{action + 1}]"

    def rules(self) -> str:
        """Explain aim, board and reply."""
        line = "Four" if self.connect == 4 else str(self.connect)
        return (
            "Connect Four. X is you, O is your opponent, a dot is an empty cell. A stone falls to "
            f"the lowest empty cell of its column. {line} in a row, column or diagonal wins. Reply "
            "with the number of a column that is not full in square brackets, such as "
            f"[{self.columns // 2 + 1}]."
        )

    def _has_line(self, cells: int) -> bool:
        for shift in self._directions:
            # Bits of `runs` start `length` stones in a row; two such runs make a longer one.
            runs, length = cells, 1
            while length < self.connect:
                step = min(length, self.connect - length)
                runs &= runs >> step * shift
                length += step
            if runs:
                return True
        return False

    def _plane(self, cells: int) -> NDArray[np.uint8]:
        num_bits = self.columns * (self.rows + 1)
        packed = np.frombuffer(cells.to_bytes((num_bits + 7) // 8, "little"), np.uint8)
        bits = np.unpackbits(packed, count=num_bits, bitorder="little")
        return bits.reshape(self.columns, self.rows + 1)[:, : self.rows].T[::-1]
