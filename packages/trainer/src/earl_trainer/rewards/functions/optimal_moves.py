"""How good moves were, by search to the end."""

from functools import lru_cache
from itertools import pairwise
from typing import Any

from earl_envs import Game, GameRecord, make_game

from earl_trainer.rewards.transcript import GameTranscript, Transcript

_MAX_POSITIONS = 10_000
_TOLERANCE = 1e-9


def optimal_moves(transcript: Transcript) -> float:
    """Return the share of the seat's moves that kept the value of the position.

    The value is what the seat gets when everybody plays best from there on (von Neumann's minimax
    theorem). For games of two opposed seats that hide nothing, small enough to be searched.

    Raises:
        ValueError: If the game is another one, or the seat has made no move.
    """
    kept = [
        each for game in transcript.games for each in _kept(transcript.game_id, transcript, game)
    ]
    if not kept:
        raise ValueError("the seat has made no move")
    return sum(kept) / len(kept)


def _kept(game_id: str, transcript: Transcript, played: GameTranscript) -> list[bool]:
    game, seat = make_game(game_id), transcript.seat
    record = GameRecord(game_id=game_id, seed=played.seed, moves=played.moves)
    states = [position.state for position in record.positions()]
    values = _values_of(game_id)
    return [
        values.of(after, seat) >= values.of(before, seat) - _TOLERANCE
        for before, after in pairwise(states)
        if game.seat(before) == seat
    ]


@lru_cache(maxsize=1)
def _values_of(game_id: str) -> "_Values":
    return _Values(make_game(game_id))


class _Values:
    """The value of every position asked for, remembered from episode to episode."""

    def __init__(self, game: Game) -> None:
        if game.num_seats != 2:
            raise ValueError(f"moves are judged in games of two seats, got {game.num_seats}")
        self._game = game
        self._known: dict[Any, float] = {}  # Any: states are the game's own

    def of(self, state: Any, seat: int) -> float:  # noqa: ANN401 - a state of the game
        """Return what a seat gets from here on, the sum of both being 0."""
        value = self._of_first(state)
        return value if seat == 0 else -value

    def _of_first(self, state: Any) -> float:  # noqa: ANN401
        if state in self._known:
            return self._known[state]
        game, returns = self._game, self._game.returns(state)
        if returns is None:
            pick = max if game.seat(state) == 0 else min
            value = pick(self._of_first(game.apply(state, move)) for move in game.legal(state))
        elif abs(returns[0] + returns[1]) > _TOLERANCE:
            raise ValueError(f"moves are judged where scores add up to 0, got {tuple(returns)}")
        else:
            value = float(returns[0])
        if len(self._known) >= _MAX_POSITIONS:
            raise ValueError(f"the game has more than {_MAX_POSITIONS:,} positions to search")
        self._known[state] = value
        return value
