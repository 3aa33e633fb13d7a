"""The value of any Connect Four position, remembered across questions."""

from typing import final

import numpy as np

from earl_envs.opponents import connect_four_kernel as kernel

_WORK_SHAPE = (kernel.NUM_CELLS + 1, 8)


@final
class ConnectFourSolver:
    """Exact search with two tables of positions already searched.

    Answers do not depend on what was asked before, only their speed does. A position is `own`, the
    stones of the side to move, and `taken`, all stones; see `connect_four_kernel`.

    Example:
        solver = ConnectFourSolver()
        solver.is_above(0, 0, score=0)      # minutes from the empty board; True
    """

    def __init__(self, *, shallow_bits: int = 16, deep_bits: int = 22) -> None:
        """Allocate tables of 2**bits positions of 8 bytes: up to 15 stones, and more."""
        self._shallow = np.zeros(1 << shallow_bits, np.int64)
        self._deep = np.zeros(1 << deep_bits, np.int64)
        self._work = np.zeros(_WORK_SHAPE, np.int64)

    @property
    def num_searched(self) -> int:
        """Positions searched so far."""
        return int(self._work[kernel.NUM_CELLS, 0])

    def is_above(self, own: int, taken: int, *, score: int) -> bool:
        """Return whether the side to move gets more than `score`; 0 asks for a win."""
        window = (score, score + 1)
        return int(kernel.search_window(own, taken, *window, *self._memory)) > score

    def score(self, own: int, taken: int) -> int:
        """Return k if the side to move wins with its k-th stone from the end, -k if it loses so."""
        return int(kernel.solve(own, taken, *self._memory))

    def optimal_columns(self, own: int, taken: int) -> list[int]:
        """Return the columns that win soonest, else draw, else lose latest."""
        return columns_of(int(kernel.optimal_moves(own, taken, *self._memory)))

    def ordered_columns(self, own: int, taken: int) -> list[int]:
        """Return the columns that do not lose at once, in the order the search tries them."""
        ordered = np.zeros(8, np.int64)
        moves = kernel.safe_moves(own, taken)
        number = int(kernel.order_moves(own, taken, moves, ordered))
        return [(move.bit_length() - 1) // 7 for move in ordered[:number].tolist()]

    @property
    def _memory(self) -> tuple[kernel.Cells, kernel.Cells, kernel.Cells]:
        return self._shallow, self._deep, self._work


def lookahead_columns(stones: tuple[int, int], seat: int, *, depth: int) -> list[int]:
    """Return the columns that look best `depth` moves ahead, for a state of `ConnectFour`."""
    moves = kernel.lookahead_moves(stones[seat], stones[0] | stones[1], depth)
    return columns_of(int(moves))


def columns_of(moves: int) -> list[int]:
    """Return the columns of a mask of cells, at most one of each, from the left."""
    return [column for column in range(kernel.NUM_COLUMNS) if moves >> 7 * column & 127]
