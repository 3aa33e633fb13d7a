"""Check that playing well pays."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from earl_envs.end_reason import EndReason
from earl_envs.evaluation.intervals import Z_95
from earl_envs.evaluation.match import play_match
from earl_envs.replays.episode import EpisodeRecord
from earl_envs.testing.context import Context
from earl_envs.testing.finding import Finding
from earl_envs.testing.playthrough import locate

_ROUNDS = (6, 18, 54, 162, 486)  # games per seat; more are played only where fewer leave it open
_PLANNED_ROUND = 1  # the one that the effort of a move is chosen for
_MAX_RULE_CALLS = 800_000
_MAX_SIMULATIONS = 1_000
_MAX_BLIND_SIMULATIONS = 100  # where luck weighs more than depth, more games tell more
_NUM_DRAWS = 8
_LEAST_GAIN = 0.25  # share of the range of scores that strong search gains where playing well pays

Interval = tuple[float, float]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How much more than random moves a search scores in a seat."""

    interval: Interval
    """95 % interval of the mean difference."""
    worst: EpisodeRecord | None
    """The game in which the search scored least there."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Searcher:
    """The best player that a number of calls of the rules allows."""

    spec: str
    calls_per_game: float
    """Calls of the rules in a game in which it has one of the seats."""
    has_to_win: bool
    """Whether it is strong enough that nothing but the game can keep it from winning."""


def strong_beats_random(context: Context) -> Iterator[Finding]:
    """Search scores more than random moves do, from every seat, where seats compete.

    Each start is played twice per seat, by search and by random moves, against random moves in all
    other seats; the mean difference of the seat's scores must be above 0 with its 95 % interval.
    Games are played until every seat is above, or the effort is at its end.

    A seat that is not fails where nothing is hidden or drawn and one seat wins what the others
    lose: after much tree search, if its gain is below a quarter of the range of scores; where
    little was affordable, or only a look one or two moves ahead, if search does worse than random
    moves. In all other games such a seat is noted as undecided, since how much search is worth
    there is no question of right or wrong: in rock, paper, scissors nothing beats random moves.
    Games of one seat, and those in which all seats always score the same, pass.
    """
    if not _is_contest(context):
        return
    is_open, totals = _is_open(context), _totals(context)
    is_fight = len(totals) == 1  # one seat wins what the others lose
    least_gain = _LEAST_GAIN * _range(context)
    searcher = _tree_searcher(context, is_open=is_open)
    if searcher is None and is_open and totals == {0.0} and context.game.num_seats == 2:
        searcher = _depth_searcher(context)
    if searcher is None:
        yield Finding(wrong="not decided: games are too long for tree search", is_note=True)
        return
    for seat, gain in enumerate(_gains(context, searcher)):
        low, high = gain.interval
        if low > 0:
            continue
        shown = (
            f"{searcher.spec} in seat {seat} scores [{low:+.2f}, {high:+.2f}] more than random "
            "moves do there"
        )
        most = least_gain if searcher.has_to_win else 0.0
        if is_fight and is_open and high < most:
            yield _located(context, gain, f"{shown}: do the scores depend on the moves?")
        else:
            yield Finding(wrong=f"not decided: {shown}", is_note=True)


def _located(context: Context, gain: Gain, wrong: str) -> Finding:
    if gain.worst is None:
        return Finding(wrong=wrong)
    game, state = gain.worst.game, gain.worst.positions()[-1].state
    return locate(context.game, game.seed, tuple(game.moves), state, wrong)


def _gains(context: Context, searcher: Searcher) -> list[Gain]:
    """Play the shortest matches in which every seat gains, or the longest; return the gains."""
    num_seats = context.game.num_seats
    gains: list[Gain] = []
    for num_pairs in _ROUNDS:
        num_games = num_pairs * num_seats
        if gains and num_games * searcher.calls_per_game > _MAX_RULE_CALLS:
            break
        strong, random = (_play(context, spec, num_games) for spec in (searcher.spec, "random"))
        pairs = list(zip(strong, random, strict=True))
        gains = [_gain(pairs[seat::num_seats], seat) for seat in range(num_seats)]
        if all(gain.interval[0] > 0 for gain in gains):
            break
    return gains


def _gain(pairs: Sequence[tuple[EpisodeRecord, EpisodeRecord]], seat: int) -> Gain:
    finished = [
        (ours, theirs)
        for ours, theirs in pairs
        if ours.end_reason == theirs.end_reason == EndReason.FINISHED
    ]
    interval = _interval([ours.returns[seat] - theirs.returns[seat] for ours, theirs in finished])
    worst = min((ours for ours, _ in finished), key=lambda e: e.returns[seat], default=None)
    return Gain(interval=interval, worst=worst)


def _play(context: Context, spec: str, num_games: int) -> Sequence[EpisodeRecord]:
    """Play against random moves; game k is from seat k modulo their number."""
    return play_match(
        context.game_id,
        spec,
        "random",
        num_games=num_games,
        seed=context.seed,
        params=context.params,
    ).episodes


def _interval(differences: Sequence[float]) -> Interval:
    """Return Student's 95 % interval of a mean, mean -+ t s / sqrt(n).

    With n - 1 degrees of freedom t = z + (z^3 + z) / (4 (n - 1)) (Abramowitz and Stegun, Handbook
    of Mathematical Functions, 26.7.5, to its first term).
    """
    num = len(differences)
    if num < 2:
        return -math.inf, math.inf
    quantile = Z_95 + (Z_95**3 + Z_95) / (4 * (num - 1))
    half = quantile * float(np.std(differences, ddof=1)) / math.sqrt(num)
    return float(np.mean(differences)) - half, float(np.mean(differences)) + half


def _is_contest(context: Context) -> bool:
    return any(len(set(scores)) > 1 for _, scores in context.endings)


def _range(context: Context) -> float:
    scores = [score for _, scores in context.endings for score in scores]
    return max(scores) - min(scores)


def _totals(context: Context) -> set[float]:
    """Return what the scores of all seats sum to in the games that were played."""
    return {round(math.fsum(scores), 6) for _, scores in context.endings}


def _is_open(context: Context) -> bool:
    """Return whether nothing is hidden and no chance is to come, as far as `resample` tells."""
    rng = context.rng("strong_beats_random")
    return all(
        context.game.resample(visit.state, seat, rng) == visit.state
        for visit in context.running_visits(limit=50)
        for seat in visit.seats
        for _ in range(_NUM_DRAWS)
    )


def _tree_searcher(context: Context, *, is_open: bool) -> Searcher | None:
    """Return tree search with as much effort as is affordable, None if that is too little."""
    num_moves, num_legal = _size(context)
    own_moves = num_moves / context.game.num_seats
    # A simulation plays half of a game on average, and a resample may replay a whole one.
    calls_per_simulation = num_moves / 2 + (0 if is_open else num_moves)
    most = _calls_per_game(context) / (own_moves * calls_per_simulation)
    num_simulations = int(min(_MAX_SIMULATIONS if is_open else _MAX_BLIND_SIMULATIONS, most))
    if num_simulations < 2 * num_legal:
        return None
    return Searcher(
        spec=f"mcts:{num_simulations}",
        calls_per_game=num_simulations * calls_per_simulation * own_moves,
        has_to_win=is_open and num_simulations >= 4 * num_legal,
    )


def _depth_searcher(context: Context) -> Searcher:
    """Return a player that looks two moves ahead, or where that takes too long one."""
    num_moves, num_legal = _size(context)
    own_moves = num_moves / context.game.num_seats
    two_deep = own_moves * num_legal**2
    if two_deep <= _calls_per_game(context):
        return Searcher(spec="negamax:2", calls_per_game=two_deep, has_to_win=False)
    return Searcher(spec="negamax:1", calls_per_game=own_moves * num_legal, has_to_win=False)


def _calls_per_game(context: Context) -> float:
    return _MAX_RULE_CALLS / (_ROUNDS[_PLANNED_ROUND] * context.game.num_seats)


def _size(context: Context) -> tuple[float, float]:
    """Return how many moves a game takes and how many are legal in a position, on average."""
    num_moves = max(1.0, float(np.mean([len(play.moves) for play in context.plays])))
    legal = [len(visit.position.legal) for visit in context.running_visits(limit=200)]
    return num_moves, float(np.mean(legal))
