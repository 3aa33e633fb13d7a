"""Exhaustive search, for small games."""

from collections.abc import Hashable
from typing import final

import numpy as np

from earl_envs.game import Game, State
from earl_envs.opponents.zero_sum import SOONER, best_of, check_two_sided, choose_action, score


@final
class Minimax:
    """Plays perfectly what it can search to the end: Tic-Tac-Toe, Nim and the like.

    Of winning moves it prefers those that win soonest, of losing ones those that lose latest, and
    draws among equals. Values are remembered from move to move.
    """

    def __init__(self, *, max_positions: int = 100_000) -> None:
        """Set how many positions a game may have before it is refused."""
        self._max_positions = max_positions
        self._game: Game | None = None
        self._values: dict[Hashable, float] = {}

    def move(self, game: Game[State], state: State, seat: int, rng: np.random.Generator) -> int:
        """Return one of the best moves.

        Raises:
            ValueError: If the game is not one of two opposed seats, or too large.
        """
        return choose_action(
            game, state, seat, rng, lambda world, exact: self._action_values(game, world, seat)
        )

    def best_actions(self, game: Game[State], state: State, seat: int) -> list[int]:
        """Return all of the best moves of a state that hides nothing.

        Raises:
            ValueError: If the game is not one of two opposed seats, or too large.
        """
        return best_of(self._action_values(game, state, seat))

    def _action_values(self, game: Game, state: Hashable, seat: int) -> dict[int, float]:
        check_two_sided(game)
        if game is not self._game:
            self._game, self._values = game, {}
        sign = 1 if seat == 0 else -1
        try:
            return {a: sign * self._value(game, game.apply(state, a)) for a in game.legal(state)}
        except RecursionError:
            raise ValueError("this game is too long for minimax; use 'negamax:DEPTH'") from None

    def _value(self, game: Game, state: Hashable) -> float:
        """Value for seat 0."""
        if state in self._values:
            return self._values[state]
        returns = game.returns(state)
        if returns is not None:
            value = score(returns, 0)
        else:
            pick = max if game.seat(state) == 0 else min
            options = [self._value(game, game.apply(state, a)) for a in game.legal(state)]
            value = pick(options) * (1 - SOONER)
        if len(self._values) >= self._max_positions:
            raise ValueError(
                f"this game has more than {self._max_positions:,} positions, too many for minimax; "
                "use 'negamax:DEPTH'"
            )
        self._values[state] = value
        return value
