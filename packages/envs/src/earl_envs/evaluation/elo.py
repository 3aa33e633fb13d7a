"""Ratings from results: Bradley-Terry by maximum likelihood, on Elo's scale."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from earl_envs.evaluation.intervals import Z_95

_SCALE = math.log(10.0) / 400.0
# A player that won all of 10^k games is found in 2.3 k steps.
_MAX_STEPS = 1_000
_MAX_HALVINGS = 60
_TOLERANCE = 1e-10


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PairResult:
    """What two players did against each other, counted for `a`."""

    a: str
    b: str
    wins: int
    draws: int
    losses: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """A player's strength: 400 points more are odds of 10 to 1."""

    name: str
    elo: float
    standard_error: float
    """Of the difference to the anchor; 0 for the anchor itself."""
    num_games: int
    score: float
    """Points per game over all opponents, a draw counting half."""

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the difference to the anchor, added to the anchor's rating."""
        half = Z_95 * self.standard_error
        return self.elo - half, self.elo + half


def expected_score(elo: float | int, other_elo: float | int) -> float:
    """Points per game that a rating expects against another.

    1 / (1 + 10^((R_b - R_a) / 400)) (Elo, The Rating of Chessplayers, 1978).
    """
    odds = math.exp(-_SCALE * abs(elo - other_elo))
    return 1.0 / (1.0 + odds) if elo >= other_elo else odds / (1.0 + odds)


def fit_elo(
    results: Sequence[PairResult],
    *,
    anchor: str | None = None,
    anchor_elo: float | int = 0.0,
    prior_draws: float | int = 1.0,
) -> list[Rating]:
    """Rate players by all their games at once, whatever the order they were played in.

    Maximises sum_ij s_ij log p_ij with p_ij the expected score and s_ij the points of i against j:
    the likelihood of Bradley and Terry (Biometrika 39, 1952), a draw counting as half a win for
    either side, by Newton's method, as it is concave in the ratings (Hunter, Annals of Statistics
    32, 2004). Standard errors are those of the inverse Fisher information
    sum_j n_ij p_ij (1 - p_ij) c^2, c = ln(10) / 400, with the anchor's rating given; draws vary
    less than that, so errors are rather too large than too small.

    Deviation: a player who won or lost every game has no finite maximum. Every pair that has met is
    therefore taken to have drawn `prior_draws` further games (as Coulom's Bayeselo does,
    https://www.remi-coulom.fr/Bayesian-Elo/), whose weight vanishes as games are played: 100 wins
    of 100 then rate 921 points above the loser.

    Args:
        results: At least one game between any two players, directly or through others.
        anchor: Who is rated `anchor_elo`; the first player by default.
        anchor_elo: The anchor's rating.
        prior_draws: Draws added per pair, not negative; 0 takes the data alone.

    Returns:
        The players, strongest first.

    Raises:
        ValueError: If players are not connected by games, if a rating has no finite maximum, or if
            counts or the anchor make no sense.
    """
    names, points, games = _tables(results)
    if anchor is not None and anchor not in names:
        raise ValueError(f"the anchor {anchor!r} has played no game; players: {', '.join(names)}")
    if not 0 <= prior_draws < math.inf:
        raise ValueError(f"prior_draws must be a finite number >= 0, got {prior_draws}")
    if not math.isfinite(anchor_elo):
        raise ValueError(f"anchor_elo must be a finite number, got {anchor_elo}")
    met = games > 0
    _check_connected(names, met)
    prior = prior_draws * met
    _check_finite(names, points + prior > 0)
    fixed = 0 if anchor is None else names.index(anchor)
    elo, errors = _maximise(points + prior / 2.0, games + prior, fixed)
    played, scored = games.sum(axis=1), points.sum(axis=1)
    ratings = [
        Rating(
            name=name,
            elo=float(elo[place] + anchor_elo),
            standard_error=float(errors[place]),
            num_games=int(played[place]),
            score=float(scored[place] / played[place]),
        )
        for place, name in enumerate(names)
    ]
    return sorted(ratings, key=lambda rating: -rating.elo)


def _tables(
    results: Sequence[PairResult],
) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
    """Names, points of each against each, and games of each against each."""
    names = list(dict.fromkeys(name for result in results for name in (result.a, result.b)))
    points = np.zeros((len(names), len(names)))
    games = np.zeros_like(points)
    for result in results:
        counts = (result.wins, result.draws, result.losses)
        if result.a == result.b or min(counts) < 0:
            raise ValueError(f"a result is of two players and counts from 0, got {result}")
        i, j = names.index(result.a), names.index(result.b)
        points[i, j] += result.wins + result.draws / 2
        points[j, i] += result.losses + result.draws / 2
        games[i, j] += sum(counts)
        games[j, i] += sum(counts)
    if len(names) < 2:
        raise ValueError("ratings need results of two players at least, got none")
    return names, points, games


def _check_connected(names: Sequence[str], met: NDArray[np.bool_]) -> None:
    apart = set(range(len(names))) - _reached(met)
    if apart:
        raise ValueError(f"no chain of games connects {names[0]!r} with {names[min(apart)]!r}")


def _check_finite(names: Sequence[str], scored: NDArray[np.bool_]) -> None:
    """Refuse results without a finite maximum: it needs chains of points from each to each.

    L. Ford, American Mathematical Monthly 64 (1957); assumption 1 of Hunter (2004).
    """
    for above in (scored, scored.T):
        apart = set(range(len(names))) - _reached(above)
        if apart:
            raise ValueError(
                f"the results give no finite ratings, as one side of {names[0]!r} and "
                f"{names[min(apart)]!r} never scored against the other: prior_draws must be > 0"
            )


def _reached(linked: NDArray[np.bool_]) -> set[int]:
    reached = {0}
    frontier = [0]
    while frontier:
        near = set(np.flatnonzero(linked[frontier.pop()]).tolist()) - reached
        reached |= near
        frontier.extend(near)
    return reached


def _maximise(
    points: NDArray[np.float64], games: NDArray[np.float64], fixed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Newton's method with halved steps; ratings and standard errors, 0 and 0 for `fixed`."""
    free = np.flatnonzero(np.arange(len(games)) != fixed)
    inner = np.ix_(free, free)
    # In units of 1 / c, so that the numbers are around 1.
    theta = np.zeros(len(games))
    for _ in range(_MAX_STEPS):
        surplus, information = _derivatives(theta, points, games)
        step = np.zeros_like(theta)
        step[free] = np.linalg.solve(information[inner], surplus.sum(axis=1)[free])
        rise = _slope(surplus, step)
        for _ in range(_MAX_HALVINGS):
            # A step that ends well past the maximum along it is too long.
            if _slope(_derivatives(theta + step, points, games)[0], step) >= -rise / 2.0:
                break
            step, rise = step / 2.0, rise / 2.0
        theta += step
        if np.abs(step).max() <= _TOLERANCE * max(1.0, np.abs(theta).max()):
            errors = np.zeros_like(theta)
            information = _derivatives(theta, points, games)[1]
            errors[free] = np.sqrt(np.diag(np.linalg.inv(information[inner])))
            return theta / _SCALE, errors / _SCALE
    raise ValueError(f"no ratings were found in {_MAX_STEPS} steps; try larger prior_draws")


def _derivatives(
    theta: NDArray[np.float64], points: NDArray[np.float64], games: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points above expectation of each against each, and the Fisher information."""
    expected = np.exp(-np.logaddexp(0.0, theta[None, :] - theta[:, None]))
    # s_ij - n_ij p_ij = s_ij p_ji - s_ji p_ij, which stays exact where p_ij is close to 1.
    surplus = points * expected.T
    weights = games * expected * expected.T
    return surplus - surplus.T, np.diag(weights.sum(axis=1)) - weights


def _slope(surplus: NDArray[np.float64], step: NDArray[np.float64]) -> float:
    """Rise of the likelihood along a step, pair by pair so that large counts hide no small ones."""
    return float((surplus * (step[:, None] - step[None, :])).sum() / 2.0)
