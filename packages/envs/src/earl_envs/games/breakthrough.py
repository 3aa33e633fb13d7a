"""Breakthrough on a board of any size, as two bitboards.

Rules by W. D. Troyka, 2000 (https://www.littlegolem.net/jsp/games/gamedetail.jsp?gtid=brkthr); he
published it on seven by seven cells, tournaments use eight by eight. The default is smaller, so
that a game fits into a conversation.
"""

from typing import final

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game

Board = tuple[int, int, int]
"""Cells held by seat 0 and by seat 1 (bit columns * row + column, from the bottom left), and the
seat to move."""

_MAX_COLUMNS = 26  # columns are letters
_MIN_ROWS = 4  # two rows of stones on either side
_SIDES = (-1, 0, 1)  # left, straight, right


@final
class Breakthrough(Game[Board]):
    """Be the first to bring a stone to the far row. Seat 0 moves up, seat 1 down.

    Example:
        Breakthrough(rows=8, columns=8)   # the tournament board
    """

    num_seats = 2

    def __init__(self, *, rows: int = 6, columns: int = 6) -> None:
        if not 2 <= columns <= _MAX_COLUMNS:
            raise ValueError(f"columns must be in 2..{_MAX_COLUMNS}, got {columns}")
        if rows < _MIN_ROWS:
            raise ValueError(f"rows must be >= {_MIN_ROWS}, got {rows}")
        self.rows, self.columns = rows, columns
        self.num_actions = 3 * rows * columns
        # Every move brings a stone one row on, and only the last one reaches the far row.
        self.max_moves = 2 * columns * (2 * rows - 5) + 1
        self._bottom = (1 << columns) - 1
        self._top = self._bottom << columns * (rows - 1)
        self._header = " ".join(chr(ord("a") + column) for column in range(columns))

    def initial(self, rng: np.random.Generator) -> Board:
        """Return two rows of stones on either side."""
        low = (1 << 2 * self.columns) - 1
        return (low, low << self.columns * (self.rows - 2), 0)

    def seat(self, state: Board) -> int:
        """Return 0 and 1 in turn."""
        return state[2]

    def legal(self, state: Board) -> list[int]:
        """Return 3 * cell + (0 left, 1 straight, 2 right) per move, none once the game is over."""
        if self.returns(state) is not None:
            return []
        own, other = state[state[2]], state[1 - state[2]]
        return [
            3 * cell + side + 1
            for cell in range(self.rows * self.columns)
            if own >> cell & 1
            for side in _SIDES
            if 0 <= cell % self.columns + side < self.columns
            # Straight ahead, an opponent's stone blocks as an own one does.
            and not (own if side else own | other) >> self._target(state, cell, side) & 1
        ]

    def _target(self, state: Board, cell: int, side: int) -> int:
        return cell + side + (-self.columns if state[2] else self.columns)

    def apply(self, state: Board, action: int) -> Board:
        """Move a stone one row on and remove the opponent's stone that it lands on."""
        seat, (cell, side) = state[2], divmod(action, 3)
        target = 1 << self._target(state, cell, side - 1)
        own, other = state[seat] & ~(1 << cell) | target, state[1 - seat] & ~target
        return (own, other, 1) if seat == 0 else (other, own, 0)

    def returns(self, state: Board) -> tuple[float, float] | None:
        """Score 1 for a stone on the far row or for taking the last stone, -1 for the opponent."""
        first, second, _ = state
        if first & self._top or not second:
            return (1.0, -1.0)
        if second & self._bottom or not first:
            return (-1.0, 1.0)
        return None

    def text(self, state: Board, seat: int) -> str:
        """Draw the board with labels, own stones X, and the way they go."""
        own, other = state[seat], state[1 - seat]
        marks = [
            "X" if own >> cell & 1 else "O" if other >> cell & 1 else "."
            for cell in range(self.rows * self.columns)
        ]
        margin = len(str(self.rows))
        rows = [
            f"{row + 1:>{margin}} {' '.join(marks[row * self.columns :][: self.columns])}"
            for row in reversed(range(self.rows))
        ]
        way = "down" if seat else "up"
        return "\n".join((*rows, f"{' ' * margin} {self._header}", f"X moves {way}."))

    def move_name(self, state: Board, action: int) -> str:
        """Name the cells that a stone leaves and reaches, such as `[b2c3]`."""
        cell, side = divmod(action, 3)
        return f"[{self._name(cell)}{self._name(self._target(state, cell, side - 1))}]"

    def _name(self, cell: int) -> str:
        row, column = divmod(cell, self.columns)
        return f"{chr(ord('a') + column)}{row + 1}"

    def planes(self, state: Board, seat: int) -> NDArray[np.uint8]:
        """Return own stones, the opponent's, and ones for the seat that moves up; row 1 first."""
        cells = range(self.rows * self.columns)
        rows = [
            [state[seat] >> cell & 1 for cell in cells],
            [state[1 - seat] >> cell & 1 for cell in cells],
            [1 - seat for _ in cells],
        ]
        return np.array(rows, np.uint8).reshape(3, self.rows, self.columns)

    def rules(self) -> str:
        """Explain aim, board and reply."""
        return (
            "Breakthrough. X is you, O is your opponent, a dot is an empty cell. A stone moves one "
            "row forward, straight or diagonally, to an empty cell; diagonally it may also take "
            "an opponent's stone. Whoever first reaches the far row, or takes every stone, wins. "
            "Reply with the cells your stone leaves and reaches in square brackets, such as [a2b3]."
        )
