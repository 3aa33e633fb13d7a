"""Tic-Tac-Toe as two bitboards with the line test and the move lists in tables."""

from functools import cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game

Stones = tuple[int, int]
"""Cells held by seat 0 and by seat 1: bit 3 * row + column, from the top left."""

_FULL = 0b111_111_111
_LINES = (0o700, 0o070, 0o007, 0o444, 0o222, 0o111, 0o421, 0o124)
_HAS_LINE = tuple(any(line & ~cells == 0 for line in _LINES) for cells in range(_FULL + 1))
_EMPTY_CELLS = tuple(
    tuple(cell for cell in range(9) if not cells >> cell & 1) for cells in range(_FULL + 1)
)
_MOVE_NAMES = tuple(f"[{cell + 1}]" for cell in range(9))
_PLANES = (np.arange(_FULL + 1)[:, None] >> np.arange(9) & 1).astype(np.uint8).reshape(-1, 3, 3)


@cache  # bounded by the game: twice its 5,478 positions
def _draw(own: int, other: int) -> str:
    cells = [
        "X" if own >> cell & 1 else "O" if other >> cell & 1 else str(cell + 1) for cell in range(9)
    ]
    return "\n".join(" ".join(cells[row : row + 3]) for row in (0, 3, 6))


@final
class TicTacToe(Game[Stones]):
    """Three in a row on three by three cells. Perfect play draws."""

    num_seats = 2
    num_actions = 9
    max_moves = 9
    solved_value = (0.0, 0.0)

    def initial(self, rng: np.random.Generator) -> Stones:
        """Return the empty board."""
        return (0, 0)

    def seat(self, state: Stones) -> int:
        """Return 0 and 1 in turn."""
        return (state[0] | state[1]).bit_count() & 1

    def legal(self, state: Stones) -> list[int]:
        """Return the empty cells, none once the game is over."""
        first, second = state
        if _HAS_LINE[first] or _HAS_LINE[second]:
            return []
        return list(_EMPTY_CELLS[first | second])

    def apply(self, state: Stones, action: int) -> Stones:
        """Put a stone of the seat to move on cell `action`."""
        first, second = state
        if (first | second).bit_count() & 1:
            return (first, second | 1 << action)
        return (first | 1 << action, second)

    def returns(self, state: Stones) -> tuple[float, float] | None:
        """Score a line 1 for its owner and -1 for the opponent, a full board 0."""
        first, second = state
        if _HAS_LINE[first]:
            return (1.0, -1.0)
        if _HAS_LINE[second]:
            return (-1.0, 1.0)
        return (0.0, 0.0) if first | second == _FULL else None

    def planes(self, state: Stones, seat: int) -> NDArray[np.uint8]:
        """Return own stones and the opponent's. [2, 3, 3]."""
        return _PLANES[[state[seat], state[1 - seat]]]

    def text(self, state: Stones, seat: int) -> str:
        """Draw the board: own stones X, the opponent's O, empty cells their number 1 to 9."""
        return _draw(state[seat], state[1 - seat])

    def move_name(self, state: Stones, action: int) -> str:
        """Name a cell by its number on the board, `[1]` to `[9]`."""
        return _MOVE_NAMES[action]

    def rules(self) -> str:
        """Explain aim, board and reply."""
        return (
            "Tic-Tac-Toe. X is you, O is your opponent, numbers are empty cells. Three in a row, "
            "column or diagonal wins. Reply with the number of an empty cell in square brackets, "
            "such as [5]."
        )
