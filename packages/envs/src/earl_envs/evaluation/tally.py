"""Counts of won, drawn and lost games."""

from dataclasses import dataclass
from typing import final

from earl_envs.evaluation.intervals import Interval, wilson_interval


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Games counted from one player's side, with 95 % intervals.

    The intervals take games to be independent. The games of one seed share their start: where a
    start favours a seat they differ in opposite directions and the intervals are rather too wide;
    where players repeat themselves they are too narrow, down to one game played many times. A
    match's `paired_interval` takes seeds to be independent instead.
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
