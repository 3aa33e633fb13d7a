"""Many games of one kind at once, any subset of them stepped together."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import TypeVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from earl_envs.boundary import Failure, attempt
from earl_envs.game import Game
from earl_envs.position import Position, examine
from earl_envs.record import start_position
from earl_envs.registry import make_game

Scalar = TypeVar("Scalar", bound=np.generic)


@final
class GameBatch:
    r"""N games of one kind, stepped whenever their moves have arrived.

    Lifecycle: every game starts at once from its own seed, runs until its rules score it, and then
    stays as it ended, so no final state is lost; new games are a new batch. The arrays are live,
    read-only views of the batch: copy one to keep how it was.

    A game whose own code raises or breaks the contract of `Game` ends there: it is `done`, scored 0
    for every seat, keeps its last sound state, and `failed` says why. Its neighbours play on.

    Example:
        batch = make_batch("earl/TicTacToe-v0", batch_size=2, seed=0)
        batch.step([4, 0])               # one move in every unfinished game
        batch.step([8], indices=[1])     # one more in game 1 only
        batch.text(1, seat=0)            # "X 2 3\n4 5 6\n7 8 O"

    Attributes:
        game: The rules.
        seeds: The seed each game started from; with `moves` it replays the game.
        seats: Seat to move in each game, -1 when it is over. [N] int8
        done: Whether each game is over. [N] bool
        returns: Score of every seat, 0 until the game is over. [N, num_seats] float32
        num_moves: Moves made in each game. [N] int32
    """

    def __init__(self, game: Game, *, seeds: Sequence[int]) -> None:
        if not seeds:
            raise ValueError("a batch needs at least one seed, got none")
        for index, seed in enumerate(seeds):
            if seed < 0:
                raise ValueError(f"seeds must not be negative, got {seed} for game {index}")
        num_games = len(seeds)
        self.game = game
        self.seeds = tuple(seeds)
        self._seats = np.full(num_games, -1, np.int8)
        self._done = np.zeros(num_games, np.bool_)
        self._returns = np.zeros((num_games, game.num_seats), np.float32)
        self._num_moves = np.zeros(num_games, np.int32)
        self.seats = _read_only(self._seats)
        self.done = _read_only(self._done)
        self.returns = _read_only(self._returns)
        self.num_moves = _read_only(self._num_moves)
        self._moves: list[list[int]] = [[] for _ in seeds]
        self._positions: list[Position | None] = [None] * num_games
        self._failed: dict[int, str] = {}
        for index, seed in enumerate(seeds):
            self._enter(index, attempt(start_position, game, seed))

    @property
    def batch_size(self) -> int:
        """Number of games."""
        return len(self.seeds)

    @property
    def failed(self) -> Mapping[int, str]:
        """Why the games ended whose own code failed: index -> one line."""
        return MappingProxyType(self._failed)

    @property
    def legal_mask(self) -> NDArray[np.bool_]:
        """The actions open in each game, in a new array [N, num_actions]; none where it is over."""
        legal = [self.legal(index) for index in range(self.batch_size)]
        rows = np.repeat(np.arange(self.batch_size), [len(actions) for actions in legal])
        mask = np.zeros((self.batch_size, self.game.num_actions), np.bool_)
        mask[rows, np.fromiter(chain.from_iterable(legal), np.intp, len(rows))] = True
        return mask

    def step(self, actions: ArrayLike, indices: ArrayLike | None = None) -> None:
        """Make one move in each of some games.

        Either every move is sound and all are made, or the call raises and none is.

        Args:
            actions: One integer per game. [K]
            indices: The games to step, each at most once, in the order of `actions`; by default
                every unfinished game, in ascending order. [K]

        Raises:
            ValueError: If an action or index is no integer, out of range, illegal, repeated, or
                meant for a finished game; the message names the game and the value.
        """
        games = np.flatnonzero(~self._done).tolist() if indices is None else _ints(indices, "index")
        moves = _ints(actions, "action")
        if len(moves) != len(games):
            raise ValueError(f"one action per game: got {len(moves)} for {len(games)} games")
        if len(set(games)) != len(games):
            repeated = next(index for index in games if games.count(index) > 1)
            raise ValueError(f"a game is stepped once per call, got index {repeated} twice")
        for index, action in zip(games, moves, strict=True):
            self._check_move(index, action)
        for index, action in zip(games, moves, strict=True):
            self._move(index, action)

    def state(self, index: int) -> Hashable:
        """Return the state of a game; a failed one gives its last sound state."""
        return self._position(index).state

    def legal(self, index: int) -> list[int]:
        """Return the actions open in a game, none when it is over."""
        self._check_index(index)
        return [] if self._done[index] else list(self._position(index).legal)

    def text(self, index: int, seat: int) -> str:
        """Return what a seat sees of a game, also after its end.

        Raises:
            Exception: Whatever the game's own `text` raises; the batch stays as it is.
        """
        if not 0 <= seat < self.game.num_seats:
            raise ValueError(f"seat must be in 0..{self.game.num_seats - 1}, got {seat}")
        return self.game.text(self._position(index).state, seat)

    def moves(self, index: int) -> tuple[int, ...]:
        """Return the actions made in a game so far."""
        self._check_index(index)
        return tuple(self._moves[index])

    def _check_index(self, index: int) -> None:
        if not 0 <= index < self.batch_size:
            raise ValueError(f"index must be in 0..{self.batch_size - 1}, got {index}")

    def _position(self, index: int) -> Position:
        self._check_index(index)
        position = self._positions[index]
        if position is None:
            raise ValueError(f"game {index} failed to start: {self._failed[index]}")
        return position

    def _check_move(self, index: int, action: int) -> None:
        self._check_index(index)
        if self._done[index]:
            raise ValueError(f"game {index} is over and takes no action, got {action}")
        legal = self._position(index).legal
        if action not in legal:
            raise ValueError(f"action {action} is illegal in game {index}, legal: {list(legal)}")

    def _move(self, index: int, action: int) -> None:
        position = self._position(index)
        reached = attempt(_advance, self.game, position, action, len(self._moves[index]) + 1)
        if not isinstance(reached, Failure):
            self._moves[index].append(action)
            self._num_moves[index] += 1
        self._enter(index, reached)

    def _enter(self, index: int, reached: Position | Failure) -> None:
        if isinstance(reached, Failure):
            self._failed[index] = reached.error
            self._seats[index] = -1
            self._done[index] = True
            return
        self._positions[index] = reached
        self._seats[index] = reached.seat
        if reached.returns is not None:
            self._done[index] = True
            self._returns[index] = reached.returns


def make_batch(game_id: str, *, batch_size: int, seed: int) -> GameBatch:
    """Start `batch_size` games with a seed each, all derived from one.

    Game i starts the same in a batch of any size.

    Raises:
        ValueError: If the id is unknown, the size below 1 or the seed negative.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be >= 1, got {batch_size}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    seeds = np.random.SeedSequence(seed).generate_state(batch_size, np.uint64).tolist()
    return GameBatch(make_game(game_id), seeds=seeds)


def _advance(game: Game, position: Position, action: int, num_moves: int) -> Position:
    reached = examine(game, game.apply(position.state, action))
    if num_moves >= game.max_moves and reached.returns is None:
        raise ValueError(f"still running after max_moves = {game.max_moves} moves")
    return reached


def _ints(values: ArrayLike, what: str) -> list[int]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"expected one {what} per game, got an array of shape {array.shape}")
    for place, value in enumerate(array.tolist()):
        if type(value) is not int:  # bool is an int too, but a mask is not a list of games
            raise ValueError(f"every {what} must be an integer, got {value!r} at place {place}")
    return array.tolist()


def _read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    view = array.view()
    view.flags.writeable = False
    return view
