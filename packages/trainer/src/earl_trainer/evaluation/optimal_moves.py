"""Which share of the learner's moves a solver might have made too."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import numpy as np
from earl_envs import Game, replay

from earl_trainer.types import EpisodeSummary, PlayedGame


@runtime_checkable
class Solver(Protocol):
    """Knows the best moves of positions, such as `earl_envs.opponents.perfect` does."""

    def optimal_actions(
        self, game: Game, state: object, seat: int, rng: np.random.Generator
    ) -> Sequence[int] | None:
        """Return all of them, or None if it does not know this position."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OptimalMoves:
    """A count over the moves of matches; replies that were no legal move are not among them."""

    num_moves: int
    """In positions that the solver knows."""
    num_optimal: int
    """Of these, that it might have made."""
    expected_of_random: float
    """Of these, that a player of random moves would have made on average in the same positions."""

    def figures(self) -> dict[str, float]:
        """Return the shares; none where the solver knew no position."""
        if not self.num_moves:
            return {}
        return {
            "optimal_share": self.num_optimal / self.num_moves,
            "optimal_share_of_random": self.expected_of_random / self.num_moves,
            "optimal_moves": float(self.num_moves),
        }


def count_optimal(game: Game, episodes: Iterable[EpisodeSummary], solver: Solver) -> OptimalMoves:
    """Compare every move of the learner's seat with the solver's.

    Args:
        game: The rules.
        episodes: Of matches; those that failed count up to where they did.
        solver: Knows the best moves.
    """
    # It is asked for no move, so chance is only what shows that the game hides nothing.
    rng = np.random.default_rng(0)
    num_moves, num_optimal, expected = 0, 0, 0.0
    for episode in episodes:
        for played in episode.games:
            for state, move in _own_moves(game, played, episode.start.seat):
                best = solver.optimal_actions(game, state, episode.start.seat, rng)
                if best is not None:
                    num_moves += 1
                    num_optimal += move in best
                    expected += len(best) / len(game.legal(state))
    return OptimalMoves(num_moves=num_moves, num_optimal=num_optimal, expected_of_random=expected)


def _own_moves(game: Game, played: PlayedGame, seat: int) -> list[tuple[object, int]]:
    """Return the states in which the seat moved, with its moves."""
    positions = replay(game, played.game_seed, played.moves)
    return [
        (position.state, move)
        for position, move in zip(positions, played.moves, strict=False)
        if position.seat == seat
    ]
