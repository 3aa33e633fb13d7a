"""The rules contract: what a person writes to add a game, and nothing else."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # The default lets type checkers accept a bare `Game`; `typing` has it only from Python 3.13.
    State = TypeVar("State", bound=Hashable, default=Any)
else:
    from typing import TypeVar

    State = TypeVar("State", bound=Hashable)


class Game(ABC, Generic[State]):
    """A turn-based game: pure rules over an immutable, hashable state.

    A game object carries no state of its own, so one object serves any number of games at once.
    Chance after the start comes from something kept in the state (a seed, a shuffled deck), so
    that a state and a move always give the same next state.

    Example:
        class LastStone(Game):
            num_seats, num_actions, max_moves = 2, 3, 11

            def initial(self, rng): return (11, 0)
            def seat(self, state): return state[1]
            def legal(self, state): return [a for a in range(3) if a + 1 <= state[0]]
            def apply(self, state, action): return (state[0] - action - 1, 1 - state[1])
            def returns(self, state):
                if state[0]: return None
                return (-1.0, 1.0) if state[1] == 0 else (1.0, -1.0)
            def text(self, state, seat): return f"{state[0]} stones"
            def move_name(self, state, action): return f"[{action + 1}]"
    """

    num_seats: int
    """Players of the game; seats are numbered from 0."""
    num_actions: int
    """Size of the action set; actions are 0 to num_actions - 1."""
    max_moves: int
    """No game lasts longer than this many moves, all seats together."""
    min_return: float = -1.0
    """The lowest score that a seat can get; what a forfeit costs."""
    solved_value: Sequence[float] | None = None
    """Score of every seat under perfect play from the start, where somebody has solved the game."""

    @abstractmethod
    def initial(self, rng: np.random.Generator) -> State:
        """Return a starting state; `rng` is the only source of chance."""

    @abstractmethod
    def seat(self, state: State) -> int:
        """Return the seat whose turn it is. Asked of running games only."""

    @abstractmethod
    def legal(self, state: State) -> list[int]:
        """Return the actions open to the seat to move, at least one while the game runs."""

    @abstractmethod
    def apply(self, state: State, action: int) -> State:
        """Return the state after a legal action. The given state stays as it is."""

    @abstractmethod
    def returns(self, state: State) -> Sequence[float] | None:
        """Return one final score per seat, or None while the game runs."""

    @abstractmethod
    def text(self, state: State, seat: int) -> str:
        """Return what `seat` sees, in as few tokens as will do: contexts hold every turn."""

    @abstractmethod
    def move_name(self, state: State, action: int) -> str:
        """Return how a player writes a legal action, such as `[5]`."""

    def rules(self) -> str:
        """Return one short paragraph for the system prompt: aim, notation, form of a reply."""
        return ""

    def forfeit(self, seat: int) -> tuple[float, ...]:
        """Return the scores when `seat` forfeits, one per seat.

        By default it gets `min_return` and the other seats share what it lost, so that a zero-sum
        game stays one. A cooperative game gives every seat `min_return`.
        """
        share = -self.min_return / max(1, self.num_seats - 1)
        return tuple(self.min_return if s == seat else share for s in range(self.num_seats))

    def planes(self, state: State, seat: int) -> NDArray[np.uint8] | None:
        """Return what `seat` sees as a board array, always of one shape.

        By convention [planes, rows, columns], the seat's own stones first. None, the default, means
        that there is no such array: frameworks then show the list of moves made so far.
        """
        return None

    def resample(self, state: State, seat: int, rng: np.random.Generator) -> State:
        """Return a state that `seat` cannot tell from this one, hidden parts drawn anew.

        Hidden are the cards of others and chance still to come. Search opponents look at such
        states only. The default is right for games without hidden information.
        """
        return state
