"""Whoever plays the seats that the agent does not."""

from collections.abc import Hashable, Sequence
from typing import Protocol, final, runtime_checkable

import numpy as np

from earl_envs.boundary import Failure, attempt
from earl_envs.checks import whole_number
from earl_envs.end_reason import EndReason
from earl_envs.faces.episode import EpisodeKey
from earl_envs.game import Game
from earl_envs.opponents.base import Opponent, RandomOpponent, make_opponent
from earl_envs.opponents.pool import draw_opponent

_DRAW_OF_A_MEMBER = -1  # a stream of its own: no seat has this number


@runtime_checkable
class InPlay(Protocol):
    """A game in progress; `Episode` and `ChatEnv` are."""

    @property
    def moves(self) -> Sequence[int]:
        """The actions made so far."""
        ...

    @property
    def seat(self) -> int:
        """The seat to move, -1 when the game is over."""
        ...

    @property
    def state(self) -> Hashable:
        """The game's own state."""
        ...

    def play(self, action: int, /) -> None:
        """Make a legal action of the seat to move."""
        ...

    def fail(self, reason: EndReason, detail: str, /) -> None:
        """End the game for a reason that is no player's doing."""
        ...


@final
class Others:
    """An opponent at every seat but the agent's, each seat with its own stream of chance.

    Of a pool one member is drawn for every episode. The random opponent's stream is that of
    `EpisodeKey.draw`, which compiled lanes work out for all their games at once. Without an
    opponent the agent plays every seat.
    """

    def __init__(
        self, game_id: str, game: Game, *, opponent: str | Opponent | None, seat: int
    ) -> None:
        self.seat = check_seat(game, seat)
        self.opponent = as_opponent(opponent)
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

    def play(self, game: InPlay) -> None:
        """Play up to the agent's next turn or the end; a failure ends it as `opponent_error`."""
        while self.plays(game.seat):
            answer = attempt(self._move, game)
            if isinstance(answer, Failure):
                game.fail(EndReason.OPPONENT_ERROR, answer.error)
            else:
                game.play(answer)

    def _move(self, game: InPlay) -> int:
        assert self._player is not None, "asked only where it plays"
        legal = self.game.legal(game.state)
        if isinstance(self._player, RandomOpponent):
            return self._key.draw(self._game_id, game.seat, len(game.moves), legal)
        rng = self._stream(game.seat)
        answer = self._player.move(self.game, game.state, game.seat, rng)
        action = whole_number(answer, "the opponent's action")
        if action not in legal:
            raise ValueError(f"the opponent's action {action} is not legal")
        return action

    def _stream(self, seat: int) -> np.random.Generator:
        if seat not in self._streams:
            self._streams[seat] = self._key.rng(self._game_id, seat)
        return self._streams[seat]


def as_opponent(opponent: object) -> Opponent | None:
    """Return a player, from one or the name of one; None and "self" mean that there is none.

    Raises:
        ValueError: If it is none of these, such as a class of players.
    """
    if opponent is None:
        return None
    if isinstance(opponent, str):
        return None if opponent == "self" else make_opponent(opponent)
    if isinstance(opponent, type) or not isinstance(opponent, Opponent):
        raise ValueError(  # noqa: TRY004
            f"opponent must be a player, the name of one, 'self' or None, got {opponent!r}"
        )
    return opponent


def check_seat(game: Game, seat: object) -> int:
    """Return a seat of the game as an int.

    Raises:
        ValueError: If it is no integer, or outside `num_seats`.
    """
    return whole_number(seat, "seat", least=0, most=game.num_seats - 1)
