"""Batches of any game, and the choice between them and the compiled ones."""

import importlib.util
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from earl_envs.batch_base import Batch, draw_place, episode_seed, read_only, slot_seeds
from earl_envs.boundary import Failure, attempt
from earl_envs.game import Game
from earl_envs.position import Position, examine
from earl_envs.record import start_position
from earl_envs.registry import make_game


@final
class GameBatch(Batch):
    """A batch of any game; see `Batch`. Masks and observations are new arrays, made when asked."""

    def __init__(self, game: Game, *, seeds: Sequence[int], autoreset: bool = False) -> None:
        super().__init__(game, seeds=seeds, autoreset=autoreset)
        num_games = self.batch_size
        self._seats = np.full(num_games, -1, np.int8)
        self._done = np.zeros(num_games, np.bool_)
        self._returns = np.zeros((num_games, game.num_seats), np.float32)
        self._num_moves = np.zeros(num_games, np.int32)
        self._episodes = np.zeros(num_games, np.int32)
        self.seats = read_only(self._seats)
        self.done = read_only(self._done)
        self.returns = read_only(self._returns)
        self.num_moves = read_only(self._num_moves)
        self.episodes = read_only(self._episodes)
        self._moves: list[list[int]] = [[] for _ in seeds]
        self._positions: list[Position | None] = [None] * num_games
        self._final: dict[int, NDArray[Any]] = {}
        self._failed: dict[int, str] = {}
        self.failed = MappingProxyType(self._failed)
        for index in range(num_games):
            self._start(index)

    @property
    def legal_mask(self) -> NDArray[np.bool_]:
        """The actions open in each game, in a new array [N, num_actions]; none where it is over."""
        legal = [self.legal(index) for index in range(self.batch_size)]
        rows = np.repeat(np.arange(self.batch_size), [len(actions) for actions in legal])
        mask = np.zeros((self.batch_size, self.game.num_actions), np.bool_)
        mask[rows, np.fromiter(chain.from_iterable(legal), np.intp, len(rows))] = True
        return mask

    @property
    def observations(self) -> NDArray[Any]:
        """What the seat to move sees, in a new array; zeros for a game that could not start.

        Raises:
            Exception: Whatever the game's own `planes` raises; the batch stays as it is.
        """
        return self._stack({index: self._observe(index) for index in self._started()})

    @property
    def final_observations(self) -> NDArray[Any]:
        """How the latest finished games looked, in a new array; see `Batch`."""
        return self._stack(self._final) if self.autoreset else self.observations

    def step(self, actions: ArrayLike, indices: ArrayLike | None = None) -> None:
        """Make one move in each of some games; see `Batch.step`."""
        games, moves = self._checked_moves(actions, indices)
        if self.autoreset:
            for index in np.flatnonzero(self._done & (self._seats >= 0)).tolist():
                self._clear(index)
        for index, action in zip(games, moves, strict=True):
            self._move(index, action)

    def restart(self, indices: ArrayLike) -> None:
        """Begin the next game of some slots; see `Batch.restart`."""
        for index in self._checked_indices(indices):
            self._clear(index)
            self._begin_next(index)

    def random_actions(self) -> NDArray[np.int64]:
        """Draw one legal action for every unfinished game; see `Batch.random_actions`."""
        actions: list[int] = []
        for index in np.flatnonzero(self._seats >= 0).tolist():
            legal = self._position(index).legal
            draw = draw_place(
                self._slot_seeds[index],
                int(self._episodes[index]),
                len(self._moves[index]),
                num_places=len(legal),
            )
            actions.append(legal[draw])
        return np.array(actions, np.int64)

    def state(self, index: int) -> Hashable:
        """Return the state of a game; a failed one gives its last sound state."""
        return self._position(index).state

    def legal(self, index: int) -> list[int]:
        """Return the actions open in a game, none when it is over."""
        self._check_index(index)
        return [] if self._seats[index] < 0 else list(self._position(index).legal)

    def moves(self, index: int) -> tuple[int, ...]:
        """Return the actions made in a game so far."""
        self._check_index(index)
        return tuple(self._moves[index])

    def _position(self, index: int) -> Position:
        self._check_index(index)
        position = self._positions[index]
        if position is None:
            raise ValueError(f"game {index} failed to start: {self._failed[index]}")
        return position

    def _started(self) -> list[int]:
        return [index for index, position in enumerate(self._positions) if position is not None]

    def _observe(self, index: int) -> NDArray[Any]:
        position = self._position(index)
        planes = self.game.planes(position.state, max(position.seat, 0))
        if planes is not None:
            return planes
        moves = np.full(self.game.max_moves, -1, np.int32)
        moves[: len(self._moves[index])] = self._moves[index]
        return moves

    def _stack(self, rows: Mapping[int, NDArray[Any]]) -> NDArray[Any]:
        # Any row tells the shape; the moves of a game that cannot even start are none.
        like = next(iter(rows.values()), None)
        if like is None and (started := self._started()):
            like = self._observe(started[0])
        if like is None:
            return np.full((self.batch_size, self.game.max_moves), -1, np.int32)
        stacked = np.full((self.batch_size, *like.shape), -1 if like.ndim == 1 else 0, like.dtype)
        for index, row in rows.items():
            stacked[index] = row
        return stacked

    def _start(self, index: int) -> None:
        seed = episode_seed(self._slot_seeds[index], int(self._episodes[index]))
        self._positions[index] = None
        self._moves[index] = []
        self._num_moves[index] = 0
        self._enter(index, attempt(start_position, self.game, seed))

    def _clear(self, index: int) -> None:
        self._done[index] = False
        self._returns[index] = 0
        self._failed.pop(index, None)

    def _begin_next(self, index: int) -> None:
        self._episodes[index] += 1
        self._start(index)

    def _move(self, index: int, action: int) -> None:
        position = self._position(index)
        reached = attempt(_advance, self.game, position, action, len(self._moves[index]) + 1)
        if not isinstance(reached, Failure):
            self._moves[index].append(action)
            self._num_moves[index] += 1
        self._enter(index, reached)
        if self.autoreset and self._done[index]:
            self._keep_final(index)
            self._begin_next(index)

    def _keep_final(self, index: int) -> None:
        seen = attempt(self._observe, index)
        if isinstance(seen, Failure):
            self._failed[index] = seen.error
            self._returns[index] = 0
        else:
            self._final[index] = seen

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


def make_batch(
    game_id: str,
    *,
    batch_size: int,
    seed: int,
    autoreset: bool = False,
    backend: str = "auto",
    **params: Any,  # noqa: ANN401 - each game has its own
) -> Batch:
    """Start `batch_size` games with a seed each, all derived from one.

    Game i starts the same in a batch of any size and with every backend.

    Args:
        game_id: As in `make_game`.
        batch_size: Number of games at once.
        seed: Everything random in the batch derives from it.
        autoreset: Whether a finished game makes way for the next in the same step.
        backend: "numba" for compiled rules, "generic" for the game's own, "auto" for the faster of
            the two that is there.
        **params: Keyword arguments of the game's class, such as the size of a board.

    Raises:
        ValueError: If the id, a parameter or the backend is unknown, the size below 1, the seed
            negative, or "numba" asked for where it is not installed or has no such game.
    """
    if backend not in {"auto", "numba", "generic"}:
        raise ValueError(f"backend must be auto, numba or generic, got {backend!r}")
    seeds = slot_seeds(seed, batch_size)
    game = make_game(game_id, **params)
    obstacle = _why_not_compiled(game)
    if backend == "numba" and obstacle:
        raise ValueError(f"no compiled batch of {game_id!r}: {obstacle}")
    if backend == "generic" or obstacle:
        batch: Batch = GameBatch(game, seeds=seeds, autoreset=autoreset)
    else:
        from earl_envs.kernels.batch import KernelBatch  # imports numba

        batch = KernelBatch(game, seeds=seeds, autoreset=autoreset)
    batch.origin = (game_id, params)
    return batch


def _why_not_compiled(game: Game) -> str | None:
    from earl_envs.kernels.names import kernel_name  # imports games

    if kernel_name(game) is None:
        return "its rules have no kernel"
    if importlib.util.find_spec("numba") is None:
        return "numba is not installed: pip install earl-envs[fast]"
    return None


def _advance(game: Game, position: Position, action: int, num_moves: int) -> Position:
    reached = examine(game, game.apply(position.state, action))
    if num_moves >= game.max_moves and reached.returns is None:
        raise ValueError(f"still running after max_moves = {game.max_moves} moves")
    return reached
