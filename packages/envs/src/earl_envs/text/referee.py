"""Moves and forfeits as the rules answer them, checked against the contract of `Game`."""

import math
from collections.abc import Hashable

from earl_envs.game import Game
from earl_envs.position import Position, examine


def make_move(game: Game, state: Hashable, action: int, *, num_moves: int) -> Position:
    """Return the position after a legal action, the `num_moves`-th of its game.

    Raises:
        ValueError: If the rules break their contract, or the game outlasts its `max_moves`.
        Exception: Whatever the rules raise.
    """
    reached = examine(game, game.apply(state, action))
    if num_moves >= game.max_moves and reached.returns is None:
        raise ValueError(f"still running after max_moves = {game.max_moves} moves")
    return reached


def forfeit_scores(game: Game, seat: int) -> tuple[float, ...]:
    """Return one score per seat for the case that `seat` forfeits.

    Raises:
        ValueError: If the game names another number of scores, or one that is not finite.
        Exception: Whatever the rules raise.
    """
    scores = tuple(map(float, game.forfeit(seat)))
    if len(scores) != game.num_seats or not all(map(math.isfinite, scores)):
        raise ValueError(f"forfeit() must be {game.num_seats} finite scores, got {scores}")
    return scores
