"""How many turns of a game are still to come."""

from dataclasses import dataclass, replace
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingTurns:
    r"""Predicts how many more turns a game takes from how many others took.

    The estimate is the mean residual life of survival analysis (Hall and Wellner 1981), over the
    games that were still running after t turns and one imaginary game of full length n:

        e(t) = (n - t + sum_{i: L_i > t} (L_i - t)) / (1 + #{i: L_i > t})

    The imaginary game makes it the upper bound n - t while nothing is known, since memory planned
    for too little is what hurts; past turn n it is over. A turn is one of any seat; one may be
    spent without a move, so that a game may take more than n. The estimator is a value: `update`
    returns a new one.
    """

    max_moves: int
    """The bound n: `max_moves` of the game."""
    counts: tuple[int, ...] = ()
    """How many finished games took 0, 1, 2, ... turns."""

    def update(self, num_turns: int) -> "RemainingTurns":
        """Add a finished game of `num_turns` turns, all seats together."""
        if num_turns < 0:
            raise ValueError(f"a game takes 0 turns or more, got {num_turns}")
        counts = [*self.counts, *[0] * (num_turns + 1 - len(self.counts))]
        counts[num_turns] += 1
        return replace(self, counts=tuple(counts))

    def predict(self, num_turns: int) -> float:
        """Return how many more turns a game takes that still runs after `num_turns`."""
        later = list(enumerate(self.counts[num_turns + 1 :], start=1))
        if num_turns < self.max_moves:
            later.append((self.max_moves - num_turns, 1))
        num_games = sum(count for _, count in later)
        return sum(more * count for more, count in later) / max(1, num_games)
