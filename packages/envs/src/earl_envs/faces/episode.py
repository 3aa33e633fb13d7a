"""One game in progress, and which one of its series it is."""

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from earl_envs.batch_base import draw_place, episode_seed
from earl_envs.boundary import Failure, attempt
from earl_envs.end_reason import FORFEITS, EndReason
from earl_envs.faces.observation import Board, action_mask, board_space, observe
from earl_envs.game import Game
from earl_envs.opponents.base import episode_rng
from earl_envs.position import Position
from earl_envs.record import GameRecord, start_position
from earl_envs.registry import make_game
from earl_envs.text.referee import forfeit_scores, make_move


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A game laid out for play."""

    game_id: str
    params: Mapping[str, Any]  # Any: plain JSON values
    """Keyword arguments of the game's class."""
    game: Game
    board: Box
    """Space of the board arrays."""

    @classmethod
    def lay(cls, game_id: str, params: Mapping[str, Any]) -> "Table":
        """Make the game and look at it once.

        Raises:
            ValueError: If `make_game` refuses the id or the parameters.
        """
        game = make_game(game_id, **params)
        return cls(game_id=game_id, params=params, game=game, board=board_space(game))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeKey:
    """All that the chance of an episode depends on, wherever and next to whatever it is played."""

    seed: int
    """What `reset` was last given."""
    episode: int
    """How many episodes began since then."""

    @property
    def game_seed(self) -> int:
        """The seed of the start position; a batch gives it to the same game of the same slot."""
        return episode_seed(self.seed, self.episode)

    def rng(self, game_id: str, seat: int) -> np.random.Generator:
        """Return a seat's stream of chance."""
        return episode_rng(self.seed, game_id=game_id, episode=self.episode, seat=seat)

    def draw(self, game_id: str, seat: int, num_moves: int, legal: Sequence[int]) -> int:
        """Draw a seat's action after `num_moves` moves, by `draw_place`: cheap, and no stream."""
        seed = self.draw_seed(game_id, seat)
        return int(legal[draw_place(seed, self.episode, num_moves, num_places=len(legal))])

    def draw_seed(self, game_id: str, seat: int) -> int:
        """Return what `draw` gives to `draw_place` in all episodes of this seed."""
        return self.seed ^ seat_word(game_id, seat)


@cache
def seat_word(game_id: str, seat: int) -> int:
    """Return 64 bits that stand for one seat of one game, in every process the same."""
    digest = hashlib.blake2b(f"{seat}/{game_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def next_key(key: EpisodeKey | None, seed: int | None) -> EpisodeKey:
    """Return the key of the next episode: a seed begins a series, no seed continues it."""
    if seed is not None:
        return EpisodeKey(seed=seed, episode=0)
    if key is None:
        fresh = np.random.SeedSequence().generate_state(1, np.uint64)
        return EpisodeKey(seed=int(fresh[0]), episode=0)
    return EpisodeKey(seed=key.seed, episode=key.episode + 1)


@final
class Episode:
    """One game from its start to its end, whoever moves.

    `play` makes a move; `forfeit` and `fail` end the game for other reasons than its rules. Rules
    that raise end it as `env_error`, scored 0 for every seat, in the last sound state.

    Attributes:
        state: The game's own state, None if not even the start could be made.
        seat: The seat to move, -1 when the game is over.
        legal: The actions open to that seat.
        moves: The actions made so far.
        returns: One score per seat, None while the game runs.
        end_reason: Why the game ended, None while it runs.
        detail: One line about an end that the rules do not explain, else empty.
    """

    def __init__(self, table: Table, *, seed: int) -> None:
        self.table = table
        self.seed = seed
        self.state: Hashable = None
        self.seat = -1
        self.legal: tuple[int, ...] = ()
        self.moves: list[int] = []
        self.returns: tuple[float, ...] | None = None
        self.end_reason: EndReason | None = None
        self.detail = ""
        self._enter(attempt(start_position, table.game, seed))

    @property
    def terminated(self) -> bool:
        """Whether the rules or a forfeit ended the game."""
        return self.end_reason is EndReason.FINISHED or self.end_reason in FORFEITS

    @property
    def truncated(self) -> bool:
        """Whether something ended the game that says nothing about the players."""
        return self.end_reason is not None and not self.terminated

    def play(self, action: int) -> None:
        """Make a legal action of the seat to move."""
        if action not in self.legal:
            raise ValueError(not_legal(action, self.legal))
        num_moves = len(self.moves) + 1
        reached = attempt(make_move, self.table.game, self.state, action, num_moves=num_moves)
        if not isinstance(reached, Failure):
            self.moves.append(action)
        self._enter(reached)

    def forfeit(self, action: int) -> None:
        """End the game because the seat to move chose an illegal action."""
        scores = attempt(forfeit_scores, self.table.game, self.seat)
        if isinstance(scores, Failure):
            self.fail(EndReason.ENV_ERROR, scores.error)
        else:
            self._end(EndReason.ILLEGAL_MOVE, scores, not_legal(action, self.legal))

    def fail(self, reason: EndReason, detail: str) -> None:
        """End the game for a reason that is no player's doing: every seat gets 0."""
        self._end(reason, (0.0,) * self.table.game.num_seats, detail)

    def observe(self, seat: int) -> Board:
        """Return the board array of a seat, also after the end, in a new array.

        A game whose `planes` raises, or shows anything but what its starts do, ends here and shows
        zeros.
        """
        nothing = np.zeros(self.table.board.shape, self.table.board.dtype)
        if self.state is None:
            return nothing
        seen = attempt(observe, self.table.game, self.state, seat, self.moves, like=nothing)
        if not isinstance(seen, Failure):
            return seen
        self.fail(EndReason.ENV_ERROR, seen.error)
        return nothing

    def mask(self, seat: int) -> NDArray[np.int8]:
        """Return the actions open to a seat now, in a new array; none unless it is to move."""
        return action_mask(self.table.game.num_actions, self.legal if seat == self.seat else ())

    def ending(self) -> dict[str, Any]:  # Any: values of several types, as Gymnasium's infos have
        """Return `ending` of this game and its `detail`, if any; empty while the game runs."""
        if self.returns is None or self.end_reason is None:
            return {}
        detail = {"detail": self.detail} if self.detail else {}
        return ending(self.returns, self.end_reason) | detail

    def record(self) -> GameRecord:
        """Return what replays the game to this state."""
        table = self.table
        return GameRecord(
            game_id=table.game_id, params=table.params, seed=self.seed, moves=tuple(self.moves)
        )

    def _enter(self, reached: Position | Failure) -> None:
        if isinstance(reached, Failure):
            self.fail(EndReason.ENV_ERROR, reached.error)
            return
        self.state, self.seat, self.legal = reached.state, reached.seat, reached.legal
        if reached.returns is not None:
            self._end(EndReason.FINISHED, reached.returns, "")

    def _end(self, reason: EndReason, returns: tuple[float, ...], detail: str) -> None:
        self.seat, self.legal = -1, ()
        self.returns, self.end_reason, self.detail = returns, reason, detail


def ending(returns: tuple[float, ...], end_reason: EndReason | None) -> dict[str, Any]:
    """Return what a last info says: `returns`, `winner` and `end_reason`.

    The winner is the seat that scored more than every other, -1 if there is none.
    """
    best = max(returns)
    unique = len(returns) > 1 and returns.count(best) == 1
    return {
        "returns": np.array(returns, np.float64),
        "winner": returns.index(best) if unique else -1,
        "end_reason": end_reason,
    }


def not_legal(action: int, legal: Sequence[int]) -> str:
    """Return what is wrong with an action, in one line."""
    return f"action {action} is not legal, legal: {list(legal)}"
