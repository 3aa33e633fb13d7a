"""Batches whose games are stepped by compiled code."""

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, final

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from earl_envs.batch_base import Batch, read_only
from earl_envs.game import Game
from earl_envs.kernels import arena
from earl_envs.kernels.arena import ACTIONS, DRAWN, DRAWN_NEXT, Arena
from earl_envs.kernels.bits import signed
from earl_envs.kernels.names import kernel_name
from earl_envs.kernels.rules import KernelRules
from earl_envs.kernels.stepping import NOWHERE, UNSOUND, Loop, entry_point, make_draw, make_step

_NO_MOVES = object()

PARALLEL_GAMES = 4096
"""From so many games on, waking the other threads takes less time than they save."""


@final
class KernelBatch(Batch):
    """A batch of a game with compiled rules; see `Batch`.

    All arrays, masks and observations too, are buffers that a step brings up to date; none is made
    anew. The compiled code checks all moves before it makes the first.
    """

    def __init__(self, game: Game, *, seeds: Sequence[int], autoreset: bool = False) -> None:
        super().__init__(game, seeds=seeds, autoreset=autoreset)
        name = kernel_name(game)
        if name is None:
            raise ValueError(f"{type(game).__name__} has no compiled rules of this size")
        self._name = name
        self._rules = _rules(name)
        self.failed: Mapping[int, str] = {}  # compiled rules do not fail
        memory = Arena(self._rules, num_games=self.batch_size, autoreset=autoreset)
        self._block, self._arrays = memory.block, memory.arrays
        self._address = memory.block.ctypes.data
        self._actions, self._indices = self._arrays[ACTIONS], self._arrays[arena.INDICES]
        self._drawn_in, self._ahead_in, self._has_next = DRAWN, DRAWN_NEXT, False
        self._sound: object = _NO_MOVES  # what was drawn last, until anything else happens
        views = self._views = [read_only(array) for array in self._arrays]
        self._drawn = views[DRAWN]
        self.seats, self.done = views[arena.SEATS], views[arena.DONE]
        self.returns, self.num_moves = views[arena.RETURNS], views[arena.NUM_MOVES]
        self.episodes, self._legal_mask = views[arena.EPISODES], views[arena.MASK]
        self._observations, self._final = views[arena.OBSERVATIONS], views[arena.FINAL]
        self._arrays[arena.KEYS][:] = [signed(seed % 2**64) for seed in seeds]
        self._set_up(np.arange(self.batch_size))
        self._step, self._draw = self._loops(self.batch_size, everyone=True)

    def __getstate__(self) -> dict[str, Any]:
        # All else is views of the block, or compiled code.
        names = ("game", "_slot_seeds", "autoreset", "origin", "_block")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["game"], seeds=state["_slot_seeds"], autoreset=state["autoreset"])
        self.origin = state["origin"]
        self._block[:] = state["_block"]
        self._num_running = int(np.count_nonzero(self.seats >= 0))

    @property
    def legal_mask(self) -> NDArray[np.bool_]:
        """The actions open in each game, none where it is over; live. [N, num_actions]."""
        return self._legal_mask

    @property
    def observations(self) -> NDArray[np.uint8]:
        """What the seat to move sees of each game; live. [N, *planes]."""
        return self._observations

    @property
    def final_observations(self) -> NDArray[np.uint8]:
        """How the latest finished games looked to seat 0; live. [N, *planes]."""
        return self._final if self.autoreset else self._observations

    def step(self, actions: ArrayLike, indices: ArrayLike | None = None) -> None:
        """Make one move in each of some games; see `Batch.step`."""
        sound, self._sound = self._sound, _NO_MOVES
        if actions is sound and indices is None and self.autoreset:  # the shortest way for one game
            # Who plays at random will ask for the next moves; the games are in the cache now.
            self._has_next = True
            self._step(self._address, self.batch_size, self._drawn_in, self._ahead_in, True)
            return
        everyone = indices is None and self._num_running == self.batch_size
        is_drawn = everyone and actions is self._drawn
        num = self.batch_size if is_drawn else self._take(actions, indices, everyone=everyone)
        source = self._drawn_in if is_drawn else ACTIONS
        self._has_next = everyone and self.autoreset and sound is not _NO_MOVES
        following = self._ahead_in if self._has_next else NOWHERE
        step = self._step if everyone else self._loops(num, everyone=False)[0]
        num_finished = step(self._address, num, source, following, is_drawn and actions is sound)
        if num_finished == UNSOUND:
            self._has_next = False
            moves = self._arrays[source][:num]
            self._checked_moves(moves, None if everyone else self._indices[:num])
            raise AssertionError("the compiled check of the moves and the general one disagree")
        if not self.autoreset:
            self._num_running -= num_finished

    def restart(self, indices: ArrayLike) -> None:
        """Begin the next game of some slots; see `Batch.restart`."""
        games = np.array(self._checked_indices(indices), np.intp)
        self._arrays[arena.EPISODES][games] += 1
        self._set_up(games)

    def random_actions(self) -> NDArray[np.int64]:
        """Draw one legal action for every unfinished game; see `Batch.random_actions`."""
        if self._has_next:
            self._has_next = False
            self._drawn_in, self._ahead_in = self._ahead_in, self._drawn_in
            self._drawn = self._sound = self._views[self._drawn_in]
            return self._drawn
        num, everyone = self._num_running, self._num_running == self.batch_size
        if not everyone:
            self._indices[:num] = np.flatnonzero(self.seats >= 0)
        draw = self._draw if everyone else self._loops(num, everyone=False)[1]
        draw(self._address, num, self._drawn_in)
        self._sound = self._drawn
        return self._drawn if everyone else self._drawn[:num]

    def state(self, index: int) -> Hashable:
        """Return the state of a game as its own rules have it."""
        index = self._checked_index(index)
        own, other = (int(self._arrays[number][index]) for number in (arena.OWN, arena.OTHER))
        first, second = (other, own) if self.seats[index] == 1 else (own, other)
        return self._rules.state(first, second, int(self.num_moves[index]))

    def legal(self, index: int) -> list[int]:
        """Return the actions open in a game, none when it is over."""
        return self._legal(self._checked_index(index))

    def moves(self, index: int) -> tuple[int, ...]:
        """Return the actions made in a game so far."""
        index = self._checked_index(index)
        ring, num_moves = self._arrays[arena.MOVES], int(self.num_moves[index])
        rows = np.arange(num_moves) + self._arrays[arena.STARTS][index]
        return tuple(ring[rows % len(ring), index].tolist())

    def _legal(self, index: int) -> list[int]:
        return np.flatnonzero(self._legal_mask[index]).tolist()

    def _take(self, actions: ArrayLike, indices: ArrayLike | None, *, everyone: bool) -> int:
        """Put the moves of a call where the compiled code looks for them; return their number."""
        moves = np.asarray(actions)
        if everyone and moves.dtype == np.int64 and moves.shape == (self.batch_size,):
            self._actions[:] = moves
            return self.batch_size
        games = np.flatnonzero(self.seats >= 0) if indices is None else np.asarray(indices)
        if not _fit(moves, games, self.batch_size):
            sound_games, sound_moves = self._checked_moves(actions, indices)
            games, moves = np.array(sound_games, np.int64), np.array(sound_moves, np.int64)
        self._actions[: len(moves)] = moves
        if not everyone:
            self._indices[: len(games)] = games
        return len(moves)

    def _set_up(self, games: NDArray[np.intp]) -> None:
        arrays, game = self._arrays, self.game
        state = game.initial(np.random.default_rng(0))  # the same for any seed in these games
        numbers = (arena.OWN, arena.OTHER, arena.LEGAL)
        for number, value in zip(numbers, self._rules.start, strict=True):
            arrays[number][games] = value
        for number in (arena.RETURNS, arena.NUM_MOVES, arena.SEATS, arena.DONE, arena.STARTS):
            arrays[number][games] = 0
        arrays[arena.OBSERVATIONS][games] = game.planes(state, 0)
        arrays[arena.MASK][games] = np.isin(np.arange(game.num_actions), game.legal(state))
        self._num_running = int(np.count_nonzero(self.seats >= 0))
        self._has_next, self._sound = False, _NO_MOVES

    def _loops(self, num: int, *, everyone: bool) -> tuple[Loop, Loop]:
        parallel = num >= PARALLEL_GAMES and numba.get_num_threads() > 1
        return _loops(self._name, everyone=everyone, parallel=parallel)


@cache
def _rules(name: str) -> KernelRules:
    return import_module(f"earl_envs.kernels.{name}").RULES


@cache
def _loops(name: str, *, everyone: bool, parallel: bool) -> tuple[Loop, Loop]:
    step, draw = (
        make(_rules(name), everyone=everyone, parallel=parallel) for make in (make_step, make_draw)
    )
    return entry_point(step), entry_point(draw)


def _fit(moves: NDArray[Any], games: NDArray[Any], batch_size: int) -> bool:
    are_ints = all(
        array.dtype.kind in "iu" and np.can_cast(array.dtype, np.int64) for array in (moves, games)
    )
    return are_ints and moves.ndim == games.ndim == 1 and len(moves) == len(games) <= batch_size
