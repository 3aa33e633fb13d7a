"""Check that playing well pays."""

import math
from collections.abc import Iterator

import numpy as np

from earl_envs.evaluation.match import MatchReport, Tally, play_match
from earl_envs.testing.context import Context
from earl_envs.testing.finding import Finding

_NUMS_OF_GAMES = (8, 24, 48)  # more are played only where few leave it open
_MAX_RULE_CALLS = 150_000
_MAX_SIMULATIONS = 400
_NUM_DRAWS = 8


def strong_beats_random(context: Context) -> Iterator[Finding]:
    """Search beats random moves where two seats compete and nothing is hidden or drawn.

    Every start is played from both seats, so that the advantage of a seat proves nothing. Where
    tree search would take too long, a player that looks one or two moves ahead must at least not do
    worse than random moves. Games of chance and of other numbers of seats pass: how much search is
    worth there is no question of right or wrong.
    """
    if not _is_contest(context):
        return
    spec, is_strong = _searcher(context)
    match = _play(context, spec)
    low, high = match.total.score_interval
    if (is_strong and low <= 0.5) or high < 0.5:
        yield Finding(
            wrong=f"{spec} scores {match.total.score:.2f} [{low:.2f}, {high:.2f}] against random "
            "moves: do the scores depend on the moves?"
        )
        return
    for seat, tally in enumerate(match.by_seat):
        low, high = tally.score_interval
        chance_low, chance_high = _random_interval(context, seat)
        if high < chance_low:
            yield Finding(
                wrong=f"{spec} in seat {seat} scores [{low:.2f}, {high:.2f}] against random moves, "
                f"where random moves score [{chance_low:.2f}, {chance_high:.2f}]"
            )


def _play(context: Context, spec: str) -> MatchReport:
    """Play the shortest match that leaves no doubt, or the longest."""
    matches = (
        play_match(
            context.game_id,
            spec,
            "random",
            num_games=num_games,
            seed=context.seed,
            params=context.params,
        )
        for num_games in _NUMS_OF_GAMES
    )
    match = next(matches)
    while match.total.score_interval[0] <= 0.5 and (longer := next(matches, None)) is not None:
        match = longer
    return match


def _is_contest(context: Context) -> bool:
    if context.game.num_seats != 2:
        return False
    outcomes = [scores for _, scores in context.endings]
    if not any(map(any, outcomes)) or any(abs(math.fsum(scores)) > 1e-6 for scores in outcomes):
        return False
    rng = context.rng("strong_beats_random")
    return all(
        context.game.resample(visit.state, seat, rng) == visit.state
        for visit in context.running_visits(limit=50)
        for seat in visit.seats
        for _ in range(_NUM_DRAWS)
    )


def _searcher(context: Context) -> tuple[str, bool]:
    """Return the best player that the calls of the rules allow, and whether it has to win."""
    mean_length = max(1.0, float(np.mean([len(play.moves) for play in context.plays])))
    legal = [len(visit.position.legal) for visit in context.running_visits(limit=200)]
    calls_per_move = _MAX_RULE_CALLS / (_NUMS_OF_GAMES[0] * mean_length / 2)
    # A simulation plays half of a game on average.
    num_simulations = int(min(_MAX_SIMULATIONS, calls_per_move / (mean_length / 2)))
    if num_simulations >= 2 * np.mean(legal):
        return f"mcts:{num_simulations}", True
    return f"negamax:{2 if np.mean(np.square(legal)) <= calls_per_move else 1}", False


def _random_interval(context: Context, seat: int) -> tuple[float, float]:
    """Return the interval of a seat's points per game in random play."""
    scores = [pair for _, pair in context.endings]
    return Tally(
        wins=sum(pair[seat] > pair[1 - seat] for pair in scores),
        draws=sum(pair[seat] == pair[1 - seat] for pair in scores),
        losses=sum(pair[seat] < pair[1 - seat] for pair in scores),
    ).score_interval
