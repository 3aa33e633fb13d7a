"""The contract of a batch: many games of one kind, any subset of them stepped together."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

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

    The arrays are live, read-only views of the batch: copy one to keep how it was.

    A game whose own code raises or breaks the contract of `Game` ends there: it is `done`, scored 0
    for every seat, keeps its last sound state, and `failed` says why. Its neighbours play on.

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
        for index, seed in enumerate(seeds):
            if seed < 0:
                raise ValueError(f"seeds must not be negative, got {seed} for game {index}")
        self.game = game
        self.batch_size = len(seeds)
        self.autoreset = autoreset
        self._slot_seeds = tuple(seeds)

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
        calls without a step in between agree. [K] for `step`; overwritten by the next call.
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
        if not 0 <= seat < self.game.num_seats:
            raise ValueError(f"seat must be in 0..{self.game.num_seats - 1}, got {seat}")
        return self.game.text(self.state(index), seat)

    def record(self, index: int) -> GameRecord:
        """Return what replays a game."""
        self._check_index(index)
        if self.origin is None:
            raise ValueError("only a batch of make_batch knows the id that a record needs")
        game_id, params = self.origin
        seed = episode_seed(self._slot_seeds[index], int(self.episodes[index]))
        return GameRecord(game_id=game_id, params=params, seed=seed, moves=self.moves(index))

    def _check_index(self, index: int) -> None:
        if not 0 <= index < self.batch_size:
            raise ValueError(f"index must be in 0..{self.batch_size - 1}, got {index}")

    def _checked_indices(self, indices: ArrayLike) -> list[int]:
        games = _ints(indices, "index")
        if len(set(games)) != len(games):
            repeated = next(index for index in games if games.count(index) > 1)
            raise ValueError(f"a game is named once per call, got index {repeated} twice")
        for index in games:
            self._check_index(index)
        return games

    def _checked_moves(
        self, actions: ArrayLike, indices: ArrayLike | None
    ) -> tuple[list[int], list[int]]:
        running = np.flatnonzero(self.seats >= 0)
        moves = _ints(actions, "action")
        games = running.tolist() if indices is None else _ints(indices, "index")
        if len(moves) != len(games):
            raise ValueError(f"one action per game: got {len(moves)} for {len(games)} games")
        for index, action in zip(self._checked_indices(games), moves, strict=True):
            if self.seats[index] < 0:
                raise ValueError(f"game {index} is over and takes no action, got {action}")
            if action not in (legal := self.legal(index)):
                raise ValueError(f"action {action} is illegal in game {index}, legal: {legal}")
        return games, moves


def slot_seeds(seed: int, batch_size: int) -> list[int]:
    """Return the seeds of the slots' first games; a slot's does not depend on the size."""
    if batch_size < 1:
        raise ValueError(f"batch_size must be >= 1, got {batch_size}")
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    return np.random.SeedSequence(seed).generate_state(batch_size, np.uint64).tolist()


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


def _ints(values: ArrayLike, what: str) -> list[int]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"expected one {what} per game, got an array of shape {array.shape}")
    for place, value in enumerate(array.tolist()):
        if type(value) is not int:  # bool is an int too, but a mask is not a list of games
            raise ValueError(f"every {what} must be an integer, got {value!r} at place {place}")
    return array.tolist()
