"""What positions are worth when everybody plays best, by search to the end."""

from functools import lru_cache
from typing import Any, final

from earl_envs import Game, make_game

_MAX_POSITIONS = 10_000
TOLERANCE = 1e-9
"""Scores that differ by less are equal."""


@lru_cache(maxsize=1)
def values_of(game_id: str) -> "PositionValues":
    """Return the values of a game, those that were searched before among them.

    Raises:
        ValueError: If the game is not one of two seats.
    """
    return PositionValues(make_game(game_id))


@final
class PositionValues:
    """The value of every position asked for, remembered from episode to episode.

    It is what a seat gets when everybody plays best from there on (von Neumann's minimax theorem),
    in games of two opposed seats that hide nothing, small enough to be searched.

    Args:
        game: The rules.
    """

    def __init__(self, game: Game) -> None:
        if game.num_seats != 2:
            raise ValueError(f"moves are judged in games of two seats, got {game.num_seats}")
        self._game = game
        self._known: dict[Any, float] = {}  # Any: states are the game's own

    def of(self, state: Any, seat: int) -> float:  # noqa: ANN401 - a state of the game
        """Return what a seat gets from here on, the sum of both being 0.

        Raises:
            ValueError: If the scores do not add up to 0, or there are too many positions.
        """
        value = self._of_first(state)
        return value if seat == 0 else -value

    def _of_first(self, state: Any) -> float:  # noqa: ANN401
        if state in self._known:
            return self._known[state]
        game, returns = self._game, self._game.returns(state)
        if returns is None:
            pick = max if game.seat(state) == 0 else min
            value = pick(self._of_first(game.apply(state, move)) for move in game.legal(state))
        elif abs(returns[0] + returns[1]) > TOLERANCE:
            raise ValueError(f"moves are judged where scores add up to 0, got {tuple(returns)}")
        else:
            value = float(returns[0])
        if len(self._known) >= _MAX_POSITIONS:
            raise ValueError(f"the game has more than {_MAX_POSITIONS:,} positions to search")
        self._known[state] = value
        return value
