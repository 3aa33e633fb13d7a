"""Whoever plays the seats that the agent does not."""

import operator
from collections.abc import Hashable
from typing import final

import numpy as np

from earl_envs.boundary import Failure, attempt
from earl_envs.faces.episode import EpisodeKey
from earl_envs.game import Game
from earl_envs.opponents.base import Opponent, make_opponent
from earl_envs.opponents.pool import draw_opponent

_DRAW_OF_A_MEMBER = -1  # a stream of its own: no seat has this number


@final
class Others:
    """An opponent at every seat but the agent's, each seat with its own stream of chance.

    Of a pool one member is drawn for every episode. Without an opponent the agent plays every seat.
    """

    def __init__(
        self, game_id: str, game: Game, *, opponent: str | Opponent | None, seat: int
    ) -> None:
        check_seat(game, seat)
        self.seat = seat
        self.opponent = make_opponent(opponent) if isinstance(opponent, str) else opponent
        self._player = self.opponent
        self.game = game
        self._game_id = game_id
        self._key = EpisodeKey(seed=0, episode=0)
        self._streams: dict[int, np.random.Generator] = {}

    def begin(self, key: EpisodeKey) -> None:
        """Begin an episode: every seat's stream starts anew."""
        self._key = key
        self._streams.clear()
        if self.opponent is not None:
            rng = key.rng(self._game_id, _DRAW_OF_A_MEMBER)
            self._player = draw_opponent(self.opponent, rng)

    def plays(self, seat: int) -> bool:
        """Return whether a seat, -1 for none, is played by the opponent."""
        return self.opponent is not None and seat not in (-1, self.seat)

    def stream(self, seat: int) -> np.random.Generator:
        """Return a seat's stream of chance in this episode."""
        if seat not in self._streams:
            self._streams[seat] = self._key.rng(self._game_id, seat)
        return self._streams[seat]

    def move(self, state: Hashable, seat: int) -> int | Failure:
        """Ask the opponent for a legal action of `seat`."""
        assert self._player is not None, "asked only where it plays"
        return attempt(_legal_move, self._player, self.game, state, seat, self.stream(seat))


def check_seat(game: Game, seat: int) -> None:
    """Refuse a seat that the game does not have.

    Raises:
        ValueError: If it is outside `num_seats`.
    """
    if not 0 <= seat < game.num_seats:
        raise ValueError(f"seat must be in 0..{game.num_seats - 1}, got {seat}")


def _legal_move(
    opponent: Opponent, game: Game, state: Hashable, seat: int, rng: np.random.Generator
) -> int:
    action = operator.index(opponent.move(game, state, seat, rng))
    if action not in game.legal(state):
        raise ValueError(f"the opponent's action {action} is not legal")
    return action
