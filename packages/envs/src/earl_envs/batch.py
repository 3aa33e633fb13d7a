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
from earl_envs.views import empty_view, view


@final  # noqa: PLR0904 - those of every batch, and `fail`
class GameBatch(Batch):
    """A batch of any game; see `Batch`. Masks and observations are new arrays, made when asked.

    All observations have the shape of a start's. A game that shows anything else, or raises when it
    is looked at, ends as one that failed, and its row is empty.
    """

    def __init__(self, game: Game, *, seeds: Sequence[int], autoreset: bool = False) -> None:
        super().__init__(game, seeds=seeds, autoreset=autoreset)
        num_games = self.batch_size
        self._seats = np.full(num_games, -1, np.int8)
        self._done = np.zeros(num_games, np.bool_)
        self._returns = np.zeros((num_games, game.num_seats), np.float32)
        self._num_moves = np.zeros(num_games, np.int32)
        self._episodes = np.zeros(num_games, np.int32)
        self._moves: list[list[int]] = [[] for _ in range(num_games)]
        # Where a game stands, or why it could not start.
        self._positions: list[Position | Failure] = []
        self._final: dict[int, NDArray[Any]] = {}
        self._failed: dict[int, str] = {}
        self._unreported: dict[int, str] = {}
        self._empty: NDArray[Any] | None = None
        self._make_views()
        for index in range(num_games):
            self._positions.append(Failure(error="not begun"))
            self._start(index)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _VIEWS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_views()

    @property
    def legal_mask(self) -> NDArray[np.bool_]:
        """The actions open in each game, in a new array [N, num_actions]; none where it is over."""
        legal = [self._legal(index) for index in range(self.batch_size)]
        rows = np.repeat(np.arange(self.batch_size), [len(actions) for actions in legal])
        mask = np.zeros((self.batch_size, self.game.num_actions), np.bool_)
        mask[rows, np.fromiter(chain.from_iterable(legal), np.intp, len(rows))] = True
        return mask

    @property
    def observations(self) -> NDArray[Any]:
        """What the seat to move sees, in a new array; see `Batch`.

        The row of a game that failed and shows nothing is 0, or -1 where moves are shown.
        """
        rows: dict[int, NDArray[Any]] = {}
        for index, position in enumerate(self._positions):
            if isinstance(position, Failure):
                continue
            seen = self._look(index)
            if not isinstance(seen, Failure):
                rows[index] = seen
            elif self._seats[index] >= 0 or not (self.autoreset or index in self._failed):
                self._fail_between_steps(index, seen.error)
        return self._stack(rows)

    @property
    def final_observations(self) -> NDArray[Any]:
        """How the latest finished games looked, in a new array; see `Batch`."""
        return self._stack(self._final) if self.autoreset else self.observations

    def step(self, actions: ArrayLike, indices: ArrayLike | None = None) -> None:
        """Make one move in each of some games; see `Batch.step`."""
        games, moves = self._checked_moves(actions, indices)
        if self.autoreset:
            self._report()
        for index, action in zip(games, moves, strict=True):
            self._move(index, action)

    def restart(self, indices: ArrayLike) -> None:
        """Begin the next game of some slots; see `Batch.restart`."""
        for index in self._checked_indices(indices):
            self._unreported.pop(index, None)
            self._clear(index)
            self._begin_next(index)

    def fail(self, index: int, error: str) -> None:
        """End a running game whose own code failed outside a step, as `Batch` describes.

        Raises:
            ValueError: If the index is out of range, or the game is over.
        """
        index = self._checked_index(index)
        if self._seats[index] < 0:
            raise ValueError(f"game {index} is over and cannot fail, got {error!r}")
        self._fail_between_steps(index, error)

    def random_actions(self) -> NDArray[np.int64]:
        """Draw one legal action for every unfinished game; see `Batch.random_actions`."""
        actions: list[int] = []
        for index in np.flatnonzero(self._seats >= 0).tolist():
            legal = self._legal(index)
            draw = draw_place(
                self._slot_seeds[index],
                int(self._episodes[index]),
                len(self._moves[index]),
                num_places=len(legal),
            )
            actions.append(legal[draw])
        return read_only(np.array(actions, np.int64))

    def state(self, index: int) -> Hashable:
        """Return the state of a game; a failed one gives its last sound state."""
        return self._position(self._checked_index(index)).state

    def legal(self, index: int) -> list[int]:
        """Return the actions open in a game, none when it is over."""
        return list(self._legal(self._checked_index(index)))

    def moves(self, index: int) -> tuple[int, ...]:
        """Return the actions made in a game so far."""
        return tuple(self._moves[self._checked_index(index)])

    def _make_views(self) -> None:
        self.seats = read_only(self._seats)
        self.done = read_only(self._done)
        self.returns = read_only(self._returns)
        self.num_moves = read_only(self._num_moves)
        self.episodes = read_only(self._episodes)
        self.failed = MappingProxyType(self._failed)

    def _legal(self, index: int) -> tuple[int, ...]:
        return self._position(index).legal if self._seats[index] >= 0 else ()

    def _position(self, index: int) -> Position:
        position = self._positions[index]
        if isinstance(position, Failure):
            raise ValueError(f"game {index} failed to start: {position.error}")  # noqa: TRY004
        return position

    def _empty_row(self) -> NDArray[Any]:
        if self._empty is None:
            # Any start will do; a few more where those of the slots cannot be seen.
            self._empty = empty_view(self.game, [*self._slot_seeds, *range(8)])
        return self._empty

    def _look(self, index: int) -> NDArray[Any] | Failure:
        position, moves = self._position(index), self._moves[index]
        return attempt(view, self.game, position, moves, like=self._empty_row())

    def _stack(self, rows: Mapping[int, NDArray[Any]]) -> NDArray[Any]:
        stacked = np.repeat(self._empty_row()[None], self.batch_size, axis=0)
        for index, row in rows.items():
            stacked[index] = row
        return stacked

    def _start(self, index: int) -> None:
        seed = episode_seed(self._slot_seeds[index], int(self._episodes[index]))
        self._moves[index] = []
        self._num_moves[index] = 0
        started = attempt(start_position, self.game, seed)
        self._positions[index] = started
        if isinstance(started, Failure):
            self._fail_between_steps(index, started.error)
        else:
            self._enter(index, started)

    def _report(self) -> None:
        """With autoreset, forget what earlier steps finished and tell what failed since."""
        for index in np.flatnonzero(self._done).tolist():
            self._clear(index)
        failed, self._unreported = self._unreported, {}
        for index, error in failed.items():
            self._fail(index, error)
            self._begin_next(index)

    def _clear(self, index: int) -> None:
        self._done[index] = False
        self._returns[index] = 0
        self._failed.pop(index, None)

    def _begin_next(self, index: int) -> None:
        self._episodes[index] += 1
        self._start(index)

    def _move(self, index: int, action: int) -> None:
        position, moves = self._position(index), self._moves[index]
        reached = attempt(_advance, self.game, position, action, len(moves) + 1)
        if isinstance(reached, Failure):
            self._fail(index, reached.error)
        else:
            moves.append(action)
            self._num_moves[index] += 1
            self._positions[index] = reached
            self._enter(index, reached)
        if self.autoreset and self._done[index]:
            self._keep_final(index)
            self._begin_next(index)

    def _keep_final(self, index: int) -> None:
        seen = self._look(index)
        if isinstance(seen, Failure):
            self._final.pop(index, None)
            self._fail(index, self._failed.get(index, seen.error))
        else:
            self._final[index] = seen.copy()  # it may be the game's own buffer

    def _enter(self, index: int, position: Position) -> None:
        self._seats[index] = position.seat
        if position.returns is not None:
            self._done[index] = True
            self._returns[index] = position.returns

    def _fail_between_steps(self, index: int, error: str) -> None:
        if self.autoreset:  # `done` tells what the latest step finished
            self._seats[index] = -1
            self._unreported[index] = error
        else:
            self._fail(index, error)

    def _fail(self, index: int, error: str) -> None:
        self._seats[index] = -1
        self._done[index] = True
        self._returns[index] = 0
        self._failed[index] = error


_VIEWS = {"seats", "done", "returns", "num_moves", "episodes", "failed"}


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
        ValueError: If the id, a parameter or the backend is unknown, the size is no integer from 1
            on, the seed none from 0 on, or "numba" asked for where it is not installed or has no
            such game.
    """
    if backend not in ("auto", "numba", "generic"):
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
