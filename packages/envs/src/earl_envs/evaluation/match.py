"""Matches between two players with the seats exchanged."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from earl_envs.end_reason import FAILURES, FORFEITS, EndReason
from earl_envs.evaluation.intervals import Interval, mean_interval
from earl_envs.evaluation.play import Seating, play_games
from earl_envs.evaluation.tally import Tally
from earl_envs.game import Game
from earl_envs.opponents.base import Opponent, make_opponent
from earl_envs.record import replay, start_position
from earl_envs.registry import make_game
from earl_envs.replays.episode import EpisodeRecord

_OWN_FAULTS = FORFEITS | {EndReason.OPPONENT_ERROR}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MatchReport:
    """A match of `a` against `b`, counted from the side of `a`.

    A win is a higher score than every seat of the other player got, a draw the same as its best.
    Where all seats share a score every game is a draw, and `mean_returns` is what tells.
    """

    game_id: str
    players: tuple[str, str]
    """Names of `a` and `b`."""
    total: Tally
    by_seat: Sequence[Tally]
    """Of the games in which `a` sat there."""
    pair_scores: Sequence[float]
    """Points per game of `a` in the games of one seed, 0.5 for a draw; one number for each seed."""
    mean_returns: tuple[float, float]
    """Mean score by the rules over the seats of `a`, and of `b`."""
    end_reasons: Mapping[EndReason, int]
    """Games by how they ended, excluded ones too."""
    faults: Mapping[str, Mapping[EndReason, int]]
    """Of these the forfeits and errors, by the player whose turn it was."""
    num_excluded: int
    """Games left out of all rates, because theirs or one of the same seed failed."""
    episodes: Sequence[EpisodeRecord]
    """Every game, ready to be replayed."""

    @property
    def paired_interval(self) -> Interval:
        """Interval of the score that takes seeds to be independent, not the games of one seed."""
        return mean_interval(self.pair_scores)

    @property
    def is_repetitive(self) -> bool:
        """Whether every pair repeats the games of the first, so that it alone says something."""
        size = max(2, len(self.by_seat))
        first = self.episodes[:size]
        if len(self.episodes) == size or any(
            (again.game.moves, again.returns) != (once.game.moves, once.returns)
            for place, again in enumerate(self.episodes)
            for once in (first[place % size],)
        ):
            return False
        game = make_game(self.game_id, **first[0].game.params)
        seeds = {episode.game.seed for episode in self.episodes}
        return len({start_position(game, seed).state for seed in seeds}) == 1

    def describe(self) -> str:
        """Return the match as a few lines for people."""
        total, (low, high) = self.total, self.total.score_interval
        paired_low, paired_high = self.paired_interval
        lines = [
            f"{self.game_id}: {self.players[0]} against {self.players[1]}, "
            f"{len(self.episodes)} games, {self.num_excluded} left out",
            f"score {total.score:.1%} [{low:.1%}, {high:.1%}], by seeds [{paired_low:.1%}, "
            f"{paired_high:.1%}], mean returns {self.mean_returns[0]:+.3f} and "
            f"{self.mean_returns[1]:+.3f}",
            _line("all seats", total),
            *(_line(f"seat {seat}", tally) for seat, tally in enumerate(self.by_seat)),
            f"ended: {_listed(self.end_reasons)}",
            *(f"by {name}: {_listed(own)}" for name, own in self.faults.items() if own),
        ]
        if self.is_repetitive:
            lines.append(
                "note: every pair of games is the same, so they say as much as one and the "
                "intervals mean nothing"
            )
        return "\n".join(lines)


def play_match(
    game_id: str,
    a: Opponent | str,
    b: Opponent | str,
    *,
    num_games: int,
    seed: int,
    params: Mapping[str, Any] | None = None,  # Any: each game has its own
) -> MatchReport:
    """Play `a` against `b`, every game seed once from each seat of `a`.

    Games of one seed share their start and nothing else. In games of more than two seats `b` plays
    all the others. In games of one seat both play each seed alone and their scores are compared.
    Forfeits lose, failures are nobody's win; see `play_games`.

    Args:
        game_id: The game.
        a: An opponent or its spec.
        b: The other one.
        num_games: Games in all, a multiple of the seats (of 2 in games of one seat).
        seed: Of the games and of the players' chance.
        params: Keyword arguments of the game's class.

    Raises:
        ValueError: If the games cannot be paired, or every pair of them failed.
    """
    game = make_game(game_id, **(params or {}))
    names = _names(a, b)
    seatings = _pairs(names, num_games=num_games, num_seats=game.num_seats, seed=seed)
    players = dict(zip(names, (_player(a), _player(b)), strict=True))
    episodes = play_games(game_id, players, seatings, seed=seed, params=params)
    return _report(game, game_id, names, episodes)


def _player(player: Opponent | str) -> Opponent:
    return make_opponent(player) if isinstance(player, str) else player


def _names(a: Opponent | str, b: Opponent | str) -> tuple[str, str]:
    first, second = (p if isinstance(p, str) else type(p).__name__ for p in (a, b))
    return (first, second) if first != second else (f"{first} (a)", f"{second} (b)")


def _pairs(names: tuple[str, str], *, num_games: int, num_seats: int, seed: int) -> list[Seating]:
    a, b = names
    rows = [tuple(a if seat == own else b for seat in range(num_seats)) for own in range(num_seats)]
    rows = rows if num_seats > 1 else [(a,), (b,)]
    if num_games < 1 or num_games % len(rows):
        raise ValueError(
            f"num_games must be a multiple of {len(rows)}, so that every seed is played from each "
            f"seat, got {num_games}"
        )
    # The first seeds are the same however many games follow.
    seeds = np.random.SeedSequence(seed).generate_state(num_games // len(rows), np.uint64).tolist()
    return [
        Seating(episode=number * len(rows) + place, game_seed=game_seed, players=row)
        for number, game_seed in enumerate(seeds)
        for place, row in enumerate(rows)
    ]


def _report(
    game: Game, game_id: str, names: tuple[str, str], episodes: Sequence[EpisodeRecord]
) -> MatchReport:
    size = max(2, game.num_seats)
    pairs = [episodes[first : first + size] for first in range(0, len(episodes), size)]
    sound = [pair for pair in pairs if not any(episode.end_reason in FAILURES for episode in pair)]
    if not sound:
        detail = next(episode.detail for episode in episodes if episode.end_reason in FAILURES)
        raise ValueError(f"every pair of games failed, the first with: {detail}")
    by_pair = [_outcomes(pair, names[0]) for pair in sound]
    outcomes = [outcome for pair in by_pair for outcome in pair]
    return MatchReport(
        game_id=game_id,
        players=names,
        total=_tally(sign for _, sign in outcomes),
        by_seat=[
            _tally(sign for seat, sign in outcomes if seat == own) for own in range(game.num_seats)
        ],
        pair_scores=[_tally(sign for _, sign in pair).score for pair in by_pair],
        mean_returns=(_mean_return(sound, names[0]), _mean_return(sound, names[1])),
        end_reasons=dict(Counter(episode.end_reason for episode in episodes)),
        faults=_faults(game, names, episodes),
        num_excluded=len(episodes) - size * len(sound),
        episodes=episodes,
    )


def _outcomes(pair: Sequence[EpisodeRecord], a: str) -> list[tuple[int, float]]:
    """Seat of `a` and how its score compares with the best of `b`, game by game."""
    if len(pair[0].players) == 1:
        return [(0, pair[0].returns[0] - pair[1].returns[0])]
    outcomes: list[tuple[int, float]] = []
    for game in pair:
        own = list(game.players).index(a)
        others = [score for seat, score in enumerate(game.returns) if seat != own]
        outcomes.append((own, game.returns[own] - max(others)))
    return outcomes


def _faults(
    game: Game, names: Sequence[str], episodes: Sequence[EpisodeRecord]
) -> dict[str, dict[EndReason, int]]:
    counts = {name: Counter[EndReason]() for name in names}
    for episode in episodes:
        if episode.end_reason in _OWN_FAULTS:
            last = replay(game, episode.game.seed, episode.game.moves)[-1]
            counts[episode.players[last.seat]][episode.end_reason] += 1
    return {name: dict(own) for name, own in counts.items()}


def _tally(differences: Iterable[float]) -> Tally:
    signs = Counter(np.sign(list(differences)).tolist())
    return Tally(wins=signs[1.0], draws=signs[0.0], losses=signs[-1.0])


def _mean_return(pairs: Sequence[Sequence[EpisodeRecord]], name: str) -> float:
    scores = [
        score
        for pair in pairs
        for game in pair
        for player, score in zip(game.players, game.returns, strict=True)
        if player == name
    ]
    return sum(scores) / len(scores)


def _listed(reasons: Mapping[EndReason, int]) -> str:
    return ", ".join(f"{reason} {number}" for reason, number in reasons.items())


def _line(title: str, tally: Tally) -> str:
    rates = (
        f"{name} {rate:.1%} [{low:.1%}, {high:.1%}]"
        for name, rate, (low, high) in (
            ("won", tally.win_rate, tally.win_interval),
            ("drawn", tally.draw_rate, tally.draw_interval),
            ("lost", tally.loss_rate, tally.loss_interval),
        )
    )
    return f"{title}: {', '.join(rates)} of {tally.games}"
