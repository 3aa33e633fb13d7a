"""Perfect play of the games that can be solved on the spot."""

from functools import cached_property
from typing import TYPE_CHECKING, cast, final

import numpy as np

from earl_envs.game import Game, State
from earl_envs.opponents.compiled import has_numba, is_usual_connect_four
from earl_envs.opponents.connect_four_book import MAX_STONES, book_column
from earl_envs.opponents.minimax import Minimax
from earl_envs.opponents.zero_sum import NUM_WORLDS

if TYPE_CHECKING:
    from earl_envs.opponents.connect_four_solver import ConnectFourSolver


@final
class PerfectOpponent:
    """Never gives away a win or a draw.

    Connect Four on its usual board: from ten stones on, an exact search finds the moves that win
    soonest or lose latest, and one of them is drawn; before that, the shipped book has a move for
    every position that the player itself brings about. Other openings are searched, which takes
    seconds at eight stones and minutes at the empty board. Any other game without hidden parts is
    left to `Minimax`, which refuses large ones.
    """

    def __init__(self) -> None:
        self._minimax = Minimax()

    @cached_property
    def _solver(self) -> "ConnectFourSolver":
        from earl_envs.opponents.connect_four_solver import ConnectFourSolver

        return ConnectFourSolver()

    def move(self, game: Game[State], state: State, seat: int, rng: np.random.Generator) -> int:
        """Return a move that keeps the value of the position.

        Raises:
            ImportError: If a position of Connect Four has to be searched and numba is missing.
            ValueError: If the game hides something, is large, or not one of two opposed seats.
        """
        if is_usual_connect_four(game):
            return self._connect_four_move(cast("tuple[int, int]", state), seat, rng)
        _check_open(game, state, seat, rng)
        return self._minimax.move(game, state, seat, rng)

    def optimal_actions(
        self, game: Game[State], state: State, seat: int, rng: np.random.Generator
    ) -> list[int] | None:
        """Return every move that this player might make if it searched; None if that takes long.

        They keep the value of the position, and win soonest or lose latest. In Connect Four they
        are known from ten stones on: before, the book has one move of maybe several.

        Raises:
            ImportError: If the game is Connect Four and numba is missing.
            ValueError: If the game hides something, is large, or not one of two opposed seats.
        """
        if not is_usual_connect_four(game):
            _check_open(game, state, seat, rng)
            return self._minimax.best_actions(game, state, seat)
        _require_numba()
        stones = cast("tuple[int, int]", state)
        taken = stones[0] | stones[1]
        if taken.bit_count() <= MAX_STONES:
            return None
        return self._solver.optimal_columns(stones[seat], taken)

    def _connect_four_move(
        self, stones: tuple[int, int], seat: int, rng: np.random.Generator
    ) -> int:
        own, taken = stones[seat], stones[0] | stones[1]
        if taken.bit_count() <= MAX_STONES:
            column = book_column(own, taken)
            if column is not None:
                return column
        _require_numba()
        columns = self._solver.optimal_columns(own, taken)
        return columns[rng.integers(len(columns))]


def _check_open(game: Game[State], state: State, seat: int, rng: np.random.Generator) -> None:
    if any(game.resample(state, seat, rng) != state for _ in range(NUM_WORLDS)):
        raise ValueError("perfect play is for games that hide nothing; use 'mcts:SIMULATIONS'")


def _require_numba() -> None:
    if not has_numba():
        raise ImportError(
            "perfect play of Connect Four beyond its book needs numba: pip install earl-envs[fast]"
        )
