"""What the searches for two opposed seats share."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from earl_envs.game import Game

NUM_WORLDS = 16
"""States drawn per move where a game hides something."""
SOONER = 1e-6
"""Share of a score that every move before it costs, so that a win comes soon and a loss late."""
_TOLERANCE = 1e-9


def check_two_sided(game: Game) -> None:
    """Refuse a game that is not one seat against another.

    Raises:
        ValueError: If it has not two seats, or a forfeit shows that they do not share a sum of 0 or
            that neither loses by it.
    """
    if game.num_seats != 2:
        raise ValueError(
            f"this opponent plays games of two seats against each other, got {game.num_seats}"
        )
    forfeit = tuple(game.forfeit(0))
    if score(forfeit, 0) >= 0:
        raise ValueError(
            "this opponent plays games of two seats against each other; here seat 0 loses nothing "
            f"by a forfeit, the scores are {forfeit}"
        )


def score(returns: Sequence[float], seat: int) -> float:
    """Return a seat's share of final scores.

    Raises:
        ValueError: If the scores do not sum to 0.
    """
    if abs(returns[0] + returns[1]) > _TOLERANCE:
        raise ValueError(
            f"this opponent plays games in which one seat wins what the other loses, got scores of "
            f"{tuple(returns)}"
        )
    return float(returns[seat])


def choose_action(
    game: Game,
    state: Hashable,
    seat: int,
    rng: np.random.Generator,
    values: Callable[[Hashable, bool], Mapping[int, float]],
) -> int:
    """Pick the action of the highest value, at random among equals.

    Where the game hides something, values are averaged over states that the seat cannot tell from
    this one: perfect-information Monte Carlo, M. Ginsberg, "GIB: Imperfect Information in a
    Computationally Challenging Game" (JAIR 14, 2001), section 3.

    Args:
        game: The rules.
        state: Never searched itself.
        seat: The seat to move.
        rng: Draws the states and breaks ties.
        values: Gives the value of each legal action in a state; the flag says whether values below
            the highest have to be exact too.
    """
    worlds = Counter(game.resample(state, seat, rng) for _ in range(NUM_WORLDS))
    totals: dict[int, float] = defaultdict(float)
    for world, count in worlds.items():
        for action, value in values(world, len(worlds) > 1).items():
            totals[action] += count * value
    return draw_best(totals, rng)


def draw_best(values: Mapping[int, float | int], rng: np.random.Generator) -> int:
    """Draw one of the actions with the highest value."""
    best = best_of(values)
    return best[rng.integers(len(best))]


def best_of(values: Mapping[int, float | int]) -> list[int]:
    """Return the actions with the highest value."""
    highest = max(values.values())
    return [action for action, value in values.items() if value >= highest - _TOLERANCE]
