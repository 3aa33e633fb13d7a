"""A whole turn of many games in words: find the answers, step, write the next messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from earl_envs.batch import GameBatch
from earl_envs.batch_base import Batch
from earl_envs.boundary import Failure, attempt
from earl_envs.text.answer import AnswerFault, bare_name, find_answer
from earl_envs.text.board_text import BoardText, can_draw
from earl_envs.text.protocol import ParsedReply, TextProtocol, check_reply


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """What became of one reply each in some games."""

    texts: Sequence[str]
    """What the seat to move is told now, in the order of the replies; empty where a game is over.
    With autoreset a finished game has begun anew, and its text is the new start."""
    failures: Mapping[int, ParsedReply]
    """Games, by index, whose reply gave no legal move. They stay as they are."""
    errors: Mapping[int, Failure]
    """Games, by index, whose own code failed to name its moves or to write its text. They end as
    games that failed, as do those that failed in the move itself: see `Batch.failed`."""


@final
class BatchText:
    """Plays the games of a batch by text, with the meaning of `TextProtocol` and `Game.text`.

    Compiled games drawn as boards take one dictionary look-up per reply and one array operation for
    all texts; other games are asked one by one. What becomes of wrong replies is the caller's
    choice: such a game is not stepped.

    Example:
        batch = make_batch("earl/ConnectFour-v0", batch_size=1024, seed=0)
        words = BatchText(batch)
        prompts = words.texts(range(1024))
        result = words.turn(replies, indices)      # replies[k] is of game indices[k]
        result.texts, result.failures
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._protocol = TextProtocol(batch.game)
        self._board: BoardText | None = None
        self._actions: dict[str | AnswerFault, int] = {}  # a fault is never a key
        if can_draw(batch.game) and not isinstance(batch, GameBatch):
            start = batch.game.initial(np.random.default_rng(0))
            names = [batch.game.move_name(start, a) for a in range(batch.game.num_actions)]
            self._board = BoardText(batch.game)
            self._actions = {bare_name(name): action for action, name in enumerate(names)}

    def texts(self, indices: ArrayLike) -> list[str]:
        """Return what the seat to move is told in some games, empty where a game is over.

        A game that fails to write its text ends there; see `Batch`.
        """
        games = self._checked_games(indices)
        return self._texts(games, {})

    def turn(self, replies: Sequence[str], indices: ArrayLike | None = None) -> TurnResult:
        """Read one reply of the seat to move in some games, step those games, and write the texts.

        Args:
            replies: One reply per game. [K]
            indices: The games, each at most once, in the order of `replies`; by default every
                running game, in ascending order. [K]

        Raises:
            ValueError: If an index is out of range, repeated, or of a game that is over, a reply is
                no string, or there are more or fewer replies than games. No game is stepped then.
        """
        games = self._checked_turns(indices)
        _check_replies(replies, num_games=len(games))
        failures: dict[int, ParsedReply] = {}
        errors: dict[int, Failure] = {}
        actions = self._known_actions(replies, games)
        for place in map(int, np.flatnonzero(actions < 0)):
            game = int(games[place])
            parsed = attempt(self._protocol.parse, replies[place], self._batch.state(game))
            if isinstance(parsed, Failure):
                self._end(game, parsed, errors)
            elif parsed.action is None:
                failures[game] = parsed
            else:
                actions[place] = parsed.action
        moved = actions >= 0
        self._batch.step(actions[moved], games[moved])
        return TurnResult(texts=self._texts(games, errors), failures=failures, errors=errors)

    def _checked_games(self, indices: ArrayLike) -> NDArray[np.intp]:
        games, num_games = np.asarray(indices), self._batch.batch_size
        if games.ndim != 1 or (games.size and games.dtype.kind not in "iu"):
            raise ValueError(f"indices must be a list of integers, got {indices!r}")
        if games.size and not 0 <= games.min() <= games.max() < num_games:
            raise ValueError(f"every index must be in 0..{num_games - 1}, got {games.tolist()}")
        return games.astype(np.intp)

    def _checked_turns(self, indices: ArrayLike | None) -> NDArray[np.intp]:
        seats = self._batch.seats
        if indices is None:
            return np.flatnonzero(seats >= 0)
        games = self._checked_games(indices)
        if np.unique(games).size < games.size:
            raise ValueError(f"a game has one turn per call, got indices {games.tolist()}")
        over = games[seats[games] < 0]
        if over.size:
            raise ValueError(f"game {over[0]} is over and takes no reply")
        return games

    def _known_actions(self, replies: Sequence[str], games: NDArray[np.intp]) -> NDArray[np.int64]:
        """Look the answers up; -1 where only the protocol can tell, or nobody."""
        if self._board is None:
            return np.full(len(replies), -1, np.int64)
        known = self._actions
        actions = np.array([known.get(find_answer(reply), -1) for reply in replies], np.int64)
        actions[~self._batch.legal_mask[games, actions]] = -1
        return actions

    def _texts(self, games: NDArray[np.intp], errors: dict[int, Failure]) -> list[str]:
        if self._board is None:
            return [self._text(game, errors) for game in games.tolist()]
        texts = self._board.draw(self._batch.observations[games])
        for place in np.flatnonzero(self._batch.seats[games] < 0).tolist():
            texts[place] = ""
        return texts

    def _text(self, game: int, errors: dict[int, Failure]) -> str:
        seat = int(self._batch.seats[game])
        text = attempt(self._batch.text, game, seat) if seat >= 0 else ""
        if not isinstance(text, Failure):
            return text
        self._end(game, text, errors)
        return ""

    def _end(self, game: int, failure: Failure, errors: dict[int, Failure]) -> None:
        errors.setdefault(game, failure)
        if isinstance(self._batch, GameBatch):  # compiled rules do not fail
            self._batch.fail(game, failure.error)


def _check_replies(replies: object, *, num_games: int) -> None:
    if not isinstance(replies, Sequence) or isinstance(replies, str | bytes):
        raise ValueError(f"replies must be a list of strings, got {replies!r}")  # noqa: TRY004
    given = cast("Sequence[object]", replies)
    if len(given) != num_games:
        raise ValueError(f"one reply per game: got {len(given)} for {num_games} games")
    if {*map(type, given)} != {str}:  # one look at all of them takes the least time
        for reply in given:
            check_reply(reply)
