"""Matches between two players with the seats exchanged."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from earl_envs.end_reason import FAILURES, EndReason
from earl_envs.evaluation.intervals import wilson_interval
from earl_envs.evaluation.play import Seating, play_games
from earl_envs.opponents.base import Opponent, make_opponent
from earl_envs.record import start_position
from earl_envs.registry import make_game
from earl_envs.replays.episode import EpisodeRecord

Interval = tuple[float, float]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Games counted from one player's side, with 95 % intervals.

    The intervals take games to be independent. The games of one seed share their start: where a
    start favours a seat they differ in opposite directions and the intervals are rather too wide;
    where players repeat themselves they are too narrow, down to one game played many times.
    """

    wins: int
    draws: int
    losses: int

    @property
    def games(self) -> int:
        """Games played to a result."""
        return self.wins + self.draws + self.losses

    @property
    def win_rate(self) -> float:
        """Share of games won."""
        return self.wins / self.games

    @property
    def draw_rate(self) -> float:
        """Share of games drawn."""
        return self.draws / self.games

    @property
    def loss_rate(self) -> float:
        """Share of games lost."""
        return self.losses / self.games

    @property
    def score(self) -> float:
        """Points per game: 1 for a win, 0.5 for a draw."""
        return (self.wins + self.draws / 2) / self.games

    @property
    def win_interval(self) -> Interval:
        """Wilson's interval of the win rate."""
        return wilson_interval(self.wins, self.games)

    @property
    def draw_interval(self) -> Interval:
        """Wilson's interval of the draw rate."""
        return wilson_interval(self.draws, self.games)

    @property
    def loss_interval(self) -> Interval:
        """Wilson's interval of the loss rate."""
        return wilson_interval(self.losses, self.games)

    @property
    def score_interval(self) -> Interval:
        """Wilson's interval of the score, which is too wide where games are drawn.

        A score of mean p in [0, 1] has a variance of p (1 - p) at most, that of wins and losses
        alone, so the interval of a rate holds it at least as often.
        """
        return wilson_interval(self.wins + self.draws / 2, self.games)


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
    mean_returns: tuple[float, float]
    """Mean score by the rules over the seats of `a`, and of `b`."""
    end_reasons: Mapping[EndReason, int]
    """Games by how they ended, excluded ones too."""
    num_excluded: int
    """Games left out of all rates, because theirs or one of the same seed failed."""
    episodes: Sequence[EpisodeRecord]
    """Every game, ready to be replayed."""

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
        lines = [
            f"{self.game_id}: {self.players[0]} against {self.players[1]}, "
            f"{len(self.episodes)} games, {self.num_excluded} left out",
            f"score {total.score:.1%} [{low:.1%}, {high:.1%}], mean returns "
            f"{self.mean_returns[0]:+.3f} and {self.mean_returns[1]:+.3f}",
            _line("all seats", total),
            *(_line(f"seat {seat}", tally) for seat, tally in enumerate(self.by_seat)),
            "ended: " + ", ".join(f"{reason} {n}" for reason, n in self.end_reasons.items()),
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
    num_seats = make_game(game_id, **(params or {})).num_seats
    names = _names(a, b)
    seatings = _pairs(names, num_games=num_games, num_seats=num_seats, seed=seed)
    players = dict(zip(names, (_player(a), _player(b)), strict=True))
    episodes = play_games(game_id, players, seatings, seed=seed, params=params)
    return _report(game_id, names, episodes, num_seats)


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
    game_id: str, names: tuple[str, str], episodes: Sequence[EpisodeRecord], num_seats: int
) -> MatchReport:
    size = max(2, num_seats)
    pairs = [episodes[first : first + size] for first in range(0, len(episodes), size)]
    sound = [pair for pair in pairs if not any(game.end_reason in FAILURES for game in pair)]
    if not sound:
        detail = next(game.detail for game in episodes if game.detail)
        raise ValueError(f"every pair of games failed, the first with: {detail}")
    outcomes = [outcome for pair in sound for outcome in _outcomes(pair, names[0])]
    return MatchReport(
        game_id=game_id,
        players=names,
        total=_tally(sign for _, sign in outcomes),
        by_seat=[
            _tally(sign for seat, sign in outcomes if seat == own) for own in range(num_seats)
        ],
        mean_returns=(_mean_return(sound, names[0]), _mean_return(sound, names[1])),
        end_reasons=dict(Counter(game.end_reason for game in episodes)),
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
