"""Hex on a rhombus of any size, as two bitboards.

Rules, and the argument that the first player wins without a swap rule, are in M. Gardner,
Mathematical Games, Scientific American 197(1), 1957. There is no swap rule here.
"""

from typing import final

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game

Stones = tuple[int, int]
"""Cells held by seat 0 and by seat 1: bit (size + 1) * row + column, from the top left."""

_MAX_SIZE = 26  # columns are letters


@final
class Hex(Game[Stones]):
    """Join your two sides of the board; every full board has exactly one winner.

    Seat 0 joins top and bottom, seat 1 left and right. Perfect play wins for seat 0.

    Example:
        Hex(size=11)   # the board that Piet Hein published
    """

    num_seats = 2
    solved_value = (1.0, -1.0)

    def __init__(self, *, size: int = 7) -> None:
        if not 1 <= size <= _MAX_SIZE:
            raise ValueError(f"size must be in 1..{_MAX_SIZE}, got {size}")
        self.size = size
        self.num_actions = self.max_moves = size * size
        # Every row ends with a bit that stays empty, so that no shift carries a stone into the
        # neighbouring row.
        stride = size + 1
        self._cells = [1 << stride * row + column for row in range(size) for column in range(size)]
        left = sum(self._cells[::size])
        self._starts = (sum(self._cells[:size]), left)
        self._goals = (sum(self._cells[-size:]), left << size - 1)
        self._header = " ".join(chr(ord("a") + column) for column in range(size))

    def initial(self, rng: np.random.Generator) -> Stones:
        """Return the empty board."""
        return (0, 0)

    def seat(self, state: Stones) -> int:
        """Return 0 and 1 in turn."""
        return (state[0] | state[1]).bit_count() & 1

    def legal(self, state: Stones) -> list[int]:
        """Return the empty cells, none once the game is over."""
        if self._is_won(state):
            return []
        taken = state[0] | state[1]
        return [action for action, cell in enumerate(self._cells) if not taken & cell]

    def apply(self, state: Stones, action: int) -> Stones:
        """Put a stone of the seat to move on cell `action`, counted row by row."""
        first, second = state
        if (first | second).bit_count() & 1:
            return (first, second | self._cells[action])
        return (first | self._cells[action], second)

    def returns(self, state: Stones) -> tuple[float, float] | None:
        """Score joined sides 1 for their owner and -1 for the opponent."""
        if not self._is_won(state):
            return None
        return (-1.0, 1.0) if self.seat(state) == 0 else (1.0, -1.0)

    def _is_won(self, state: Stones) -> bool:
        # Only the seat that moved last can have joined its sides just now.
        seat = 1 - self.seat(state)
        own, goal, stride = state[seat], self._goals[seat], self.size + 1
        reached, new = 0, own & self._starts[seat]
        while new and not new & goal:
            reached |= new
            near = new << 1 | new >> 1 | new << stride | new >> stride
            # The rows are shifted: a cell also touches those above right and below left of it.
            near |= new << stride - 1 | new >> stride - 1
            new = near & own & ~reached
        return new != 0

    def text(self, state: Stones, seat: int) -> str:
        """Draw the slanted board with labels and the sides to join, own stones X."""
        own, other = state[seat], state[1 - seat]
        marks = ["X" if own & c else "O" if other & c else "." for c in self._cells]
        margin = len(str(self.size))
        rows = [
            f"{' ' * row}{row + 1:>{margin}} {' '.join(marks[row * self.size :][: self.size])}"
            for row in range(self.size)
        ]
        sides = "top and bottom" if seat == 0 else "left and right"
        return "\n".join((f"{' ' * margin} {self._header}", *rows, f"X joins {sides}."))

    def move_name(self, state: Stones, action: int) -> str:
        """Name a cell by column and row, from `[a1]` at the top left."""
        row, column = divmod(action, self.size)
        return f"[{chr(ord('a') + column)}{row + 1}]"

    def planes(self, state: Stones, seat: int) -> NDArray[np.uint8]:
        """Return own stones, the opponent's, and ones for the seat that joins top and bottom."""
        first = int(seat == 0)
        rows = [
            [bool(state[seat] & cell) for cell in self._cells],
            [bool(state[1 - seat] & cell) for cell in self._cells],
            [first] * self.num_actions,
        ]
        return np.array(rows, np.uint8).reshape(3, self.size, self.size)

    def rules(self) -> str:
        """Explain aim, board and reply."""
        return (
            "Hex. X is you, O is your opponent, a dot is an empty cell; each row is shifted half a "
            "cell to the right of the one above, so b2 touches b1, c1, a2, c2, a3 and b3. You take "
            "turns to fill an empty cell. Whoever joins their two sides of the board with a chain "
            "of touching stones wins. Reply with a column and row in square brackets, such as [a1]."
        )
