"""Search to a fixed depth."""

import math
from collections.abc import Callable, Hashable
from typing import cast, final

import numpy as np

from earl_envs.game import Game, State
from earl_envs.opponents.base import whole_number
from earl_envs.opponents.compiled import has_numba, is_usual_connect_four
from earl_envs.opponents.zero_sum import SOONER, check_two_sided, choose_action, score

Heuristic = Callable[[Game, Hashable, int], float]
"""Estimates, from the game and a state, what a seat will score."""

# More than rounding, less than what a move costs.
_ROOM = 1e-8
# More moves than any search gets to see.
_MAX_DEPTH = 1_000


@final
class Negamax:
    """Looks a number of moves ahead, by alpha-beta search with remembered positions.

    D. Knuth and R. Moore, "An Analysis of Alpha-Beta Pruning" (1975). Beyond its depth it sees the
    heuristic's estimate, by default 0. It prefers to win soon and to lose late, and draws among
    equal moves. Connect Four on its usual board is searched by a compiled kernel where numba is
    installed and there is no heuristic.
    """

    def __init__(self, *, depth: int, heuristic: Heuristic | None = None) -> None:
        if depth < 1:
            raise ValueError(f"depth must be >= 1, got {depth}")
        self._depth = depth
        self._heuristic = heuristic

    @classmethod
    def from_text(cls, depth: str) -> "Negamax":
        """Read the depth of a spec."""
        return cls(depth=whole_number(depth, what="DEPTH", most=_MAX_DEPTH))

    def move(self, game: Game[State], state: State, seat: int, rng: np.random.Generator) -> int:
        """Return one of the moves that look best.

        Raises:
            ValueError: If the game is not one of two opposed seats.
        """
        if self._heuristic is None and is_usual_connect_four(game) and has_numba():
            from earl_envs.opponents.connect_four_solver import lookahead_columns

            columns = lookahead_columns(cast("tuple[int, int]", state), seat, depth=self._depth)
            return columns[rng.integers(len(columns))]
        check_two_sided(game)
        return choose_action(
            game, state, seat, rng, lambda world, exact: self._values(game, world, seat, exact)
        )

    def _values(self, game: Game, state: Hashable, seat: int, exact: bool) -> dict[int, float]:
        search = _Search(game, seat, depth=self._depth, heuristic=self._heuristic)
        values: dict[int, float] = {}
        for action in game.legal(state):
            # Room below the best so far, so that equal values are seen as equal.
            best = max(values.values(), default=-math.inf)
            alpha = -math.inf if exact else best - _ROOM
            reached = game.apply(state, action)
            values[action] = search.value(reached, self._depth - 1, alpha, math.inf)
        return values


@final
class _Search:
    """One search; values are for the seat it was started for."""

    def __init__(self, game: Game, seat: int, *, depth: int, heuristic: Heuristic | None) -> None:
        self._game = game
        self._seat = seat
        self._depth = depth
        self._heuristic = heuristic
        self._bounds: dict[tuple[Hashable, int], tuple[float, float]] = {}

    def value(self, state: Hashable, depth: int, alpha: float, beta: float) -> float:
        """Return the value if it is inside (alpha, beta), else a bound on that side."""
        returns = self._game.returns(state)
        if returns is not None:
            return score(returns, self._seat) * (1 - SOONER * (self._depth - depth))
        if depth == 0:
            return 0.0 if self._heuristic is None else self._estimate(self._heuristic, state)
        low, high = self._bounds.get((state, depth), (-math.inf, math.inf))
        if low >= beta or low == high:
            return low
        if high <= alpha:
            return high
        value = self._best(state, depth, alpha, beta)
        if value > alpha:
            low = max(low, value)
        if value < beta:
            high = min(high, value)
        self._bounds[state, depth] = (low, high)
        return value

    def _best(self, state: Hashable, depth: int, alpha: float, beta: float) -> float:
        own = self._game.seat(state) == self._seat
        best = -math.inf if own else math.inf
        for action in self._game.legal(state):
            value = self.value(self._game.apply(state, action), depth - 1, alpha, beta)
            if own:
                best = max(best, value)
                alpha = max(alpha, best)
            else:
                best = min(best, value)
                beta = min(beta, best)
            if alpha >= beta:
                break
        return best

    def _estimate(self, heuristic: Heuristic, state: Hashable) -> float:
        return heuristic(self._game, state, self._seat)
