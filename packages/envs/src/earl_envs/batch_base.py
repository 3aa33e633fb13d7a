"""The contract of a batch: many games of one kind, any subset of them stepped together."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from earl_envs.checks import flag, whole_number, whole_numbers
from earl_envs.game import Game
from earl_envs.record import GameRecord

Scalar = TypeVar("Scalar", bound=np.generic)

_WORD = 2**64 - 1


class Batch(ABC):  # noqa: PLR0904 - one more than twelve, a third of them views of arrays
    r"""N games of one kind, stepped whenever their moves have arrived; `make_batch` makes one.

    Lifecycle: every slot starts its first game at once. A finished game stays as it ended, so that
    no final state is lost, until `restart` begins the slot's next game. With `autoreset` the next
    game begins in the step that finished the last one: `done` and `returns` then tell what the
    latest step finished, `final_observations` how it looked, and all else is about the new games.

    The arrays below are live, read-only views of the batch: copy one to keep how it was. The mask
    and the observations are live with the backend "numba" too; "generic" makes them anew whenever
    they are asked for. A batch can be copied and pickled in mid-game, if the states of its game
    can; the copy has a future of its own, equal to the original's for equal moves.

    A game whose own code raises or breaks the contract of `Game` ends there: it is `done`, scored 0
    for every seat, keeps its last sound state, and `failed` says why. Its neighbours play on. With
    `autoreset` a game that fails between two steps, at its start or when it is looked at, has no
    seat to move (-1 in `seats`); the batch's next step reports it and begins the slot's next game,
    so that what the latest step finished is never overwritten.

    Example:
        batch = make_batch("earl/TicTacToe-v0", batch_size=2, seed=0)
        batch.step([4, 0])               # one move in every unfinished game
        batch.step([8], indices=[1])     # one more in game 1 only
        batch.text(1, seat=0)            # "X 2 3\n4 5 6\n7 8 O"

    Attributes:
        game: The rules.
        batch_size: Number of games, N.
        seats: Seat to move in each game, -1 when it is over. [N] int8
        done: Whether each game is over. [N] bool
        returns: Score of every seat, 0 until the game is over. [N, num_seats] float32
        num_moves: Moves made in each game. [N] int32
        episodes: Which game of its slot each one is, counted from 0. [N] int32
        failed: Why the games ended whose own code failed: index -> one line.
        autoreset: Whether a finished game makes way for the next in the same step.
        origin: Id and parameters that the game was made from, which `record` needs.
    """

    game: Game
    seats: NDArray[np.int8]
    done: NDArray[np.bool_]
    returns: NDArray[np.float32]
    num_moves: NDArray[np.int32]
    episodes: NDArray[np.int32]
    failed: Mapping[int, str]
    origin: tuple[str, Mapping[str, Any]] | None = None  # Any: plain JSON values

    def __init__(self, game: Game, *, seeds: Sequence[int], autoreset: bool) -> None:
        if not seeds:
            raise ValueError("a batch needs at least one seed, got none")
        self.game = game
        self.batch_size = len(seeds)
        self.autoreset = flag(autoreset, "autoreset")
        self._slot_seeds = tuple(
            whole_number(seed, f"seed of game {index}", least=0) for index, seed in enumerate(seeds)
        )

    def __copy__(self) -> "Batch":
        """Return a deep copy: half a copy would step along with the original."""
        return deepcopy(self)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed each game started from; with `moves` it replays the game."""
        return tuple(map(episode_seed, self._slot_seeds, self.episodes.tolist()))

    @property
    @abstractmethod
    def legal_mask(self) -> NDArray[np.bool_]:
        """The actions open in each game, none where it is over. [N, num_actions]."""

    @property
    @abstractmethod
    def observations(self) -> NDArray[Any]:
        """What the seat to move sees of each game; of a finished one, what seat 0 sees.

        [N, *planes] uint8; for a game without planes its moves, [N, max_moves] int32, filled up
        with -1.
        """

    @property
    @abstractmethod
    def final_observations(self) -> NDArray[Any]:
        """How the latest finished game of each slot looked to seat 0, shaped like `observations`.

        Without `autoreset` the same as `observations`.
        """

    @abstractmethod
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

    @abstractmethod
    def restart(self, indices: ArrayLike) -> None:
        """Begin the next game of some slots, also where the present one still runs.

        Its seed derives from the slot's first seed and the number of the game.

        Raises:
            ValueError: If an index is no integer, out of range or repeated.
        """

    @abstractmethod
    def random_actions(self) -> NDArray[np.int64]:
        """Draw one legal action for every unfinished game, each equally likely.

        A draw depends on the slot's first seed and on the numbers of game and move alone, so two
        calls without a step in between agree. [K] for `step`; read-only, so that a batch which is
        handed its own draws need not check them again. It keeps its values until the next call,
        which with the backend "numba" overwrites them.
        """

    @abstractmethod
    def state(self, index: int) -> Hashable:
        """Return the state of a game; a failed one gives its last sound state."""

    @abstractmethod
    def moves(self, index: int) -> tuple[int, ...]:
        """Return the actions made in a game so far."""

    @abstractmethod
    def legal(self, index: int) -> list[int]:
        """Return the actions open in a game, none when it is over."""

    def text(self, index: int, seat: int) -> str:
        """Return what a seat sees of a game, also after its end.

        Raises:
            Exception: Whatever the game's own `text` raises; the batch stays as it is.
        """
        seat = whole_number(seat, "seat", least=0, most=self.game.num_seats - 1)
        return self.game.text(self.state(index), seat)

    def record(self, index: int) -> GameRecord:
        """Return what replays a game."""
        index = self._checked_index(index)
        if self.origin is None:
            raise ValueError("only a batch of make_batch knows the id that a record needs")
        game_id, params = self.origin
        seed = episode_seed(self._slot_seeds[index], int(self.episodes[index]))
        return GameRecord(game_id=game_id, params=params, seed=seed, moves=self.moves(index))

    @abstractmethod
    def _legal(self, index: int) -> Sequence[int]:
        """Return the actions open in a running game; the index is sound."""

    def _checked_index(self, index: object) -> int:
        return whole_number(index, "index", least=0, most=self.batch_size - 1)

    def _checked_indices(self, indices: ArrayLike) -> list[int]:
        games = whole_numbers(indices, "index")
        if len(set(games)) != len(games):
            repeated = next(index for index in games if games.count(index) > 1)
            raise ValueError(f"a game is named once per call, got index {repeated} twice")
        if games:
            self._checked_index(min(games))
            self._checked_index(max(games))
        return games

    def _checked_moves(
        self, actions: ArrayLike, indices: ArrayLike | None
    ) -> tuple[list[int], list[int]]:
        moves, seats = whole_numbers(actions, "action"), self.seats.tolist()
        if indices is None:
            games = [index for index, seat in enumerate(seats) if seat >= 0]
        else:
            games = self._checked_indices(indices)
        if len(moves) != len(games):
            raise ValueError(f"one action per game: got {len(moves)} for {len(games)} games")
        for index, action in zip(games, moves, strict=True):
            if seats[index] < 0:
                raise ValueError(f"game {index} is over and takes no action, got {action}")
            if action not in (legal := self._legal(index)):
                raise ValueError(f"action {action} is illegal in game {index}, legal: {[*legal]}")
        return games, moves


def slot_seeds(seed: int, batch_size: int) -> list[int]:
    """Return the seeds of the slots' first games; a slot's does not depend on the size."""
    num_slots = whole_number(batch_size, "batch_size", least=1)
    sequence = np.random.SeedSequence(whole_number(seed, "seed", least=0))
    return sequence.generate_state(num_slots, np.uint64).tolist()


def episode_seed(slot_seed: int, episode: int) -> int:
    """Return the seed of a slot's game number `episode`; the first game has the slot's own."""
    if episode == 0:
        return slot_seed
    sequence = np.random.SeedSequence(slot_seed, spawn_key=(episode,))
    return int(sequence.generate_state(1, np.uint64)[0])


def draw_place(slot_seed: int, episode: int, move: int, *, num_places: int) -> int:
    """Return a number below `num_places` that depends on the arguments alone, all equally likely.

    Output number `2**32 * episode + move` of the generator SplitMix64 that starts at the slot's
    seed (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators", figure 17),
    scaled by its upper 31 bits.
    """
    bits = slot_seed + ((episode << 32) + move + 1) * 0x9E3779B97F4A7C15 & _WORD
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & _WORD
    return ((bits ^ bits >> 31) >> 33) * num_places >> 31


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return a view through which nobody can write."""
    view = array.view()
    view.flags.writeable = False
    return view


def padded_moves(moves: Sequence[int], max_moves: int) -> NDArray[np.int32]:
    """Return what a game without planes shows: its moves, filled up with -1. [max_moves]."""
    padded = np.full(max_moves, -1, np.int32)
    padded[: len(moves)] = moves
    return padded
