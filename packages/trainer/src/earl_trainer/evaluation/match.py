"""The result of a match: win rate with its interval, and how replies failed."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import final

from earl_envs import EndReason
from earl_envs.evaluation.intervals import difference_interval, wilson_interval

from earl_trainer.types import EpisodeSummary, RunFailedError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MatchResult:
    """How a policy did over a match; rates are shares of the games played to a result."""

    games: int
    """Games whose outcome the policy is responsible for; failed ones are left out."""
    win_rate: float
    win_rate_low: float
    """Lower end of the 95 % interval."""
    win_rate_high: float
    """Upper end of the 95 % interval."""
    draw_rate: float
    loss_rate: float
    """Forfeits and games cut by a token limit included."""
    illegal_rate: float
    """Share of replies that were no legal move."""

    @classmethod
    def of(cls, episodes: Sequence[EpisodeSummary]) -> "MatchResult":
        """Count a match.

        Raises:
            RunFailedError: If no game was played to a result.
        """
        played = [episode for episode in episodes if not episode.failed]
        if not played:
            raise RunFailedError(
                f"all {len(episodes)} games of the match failed: {episodes[0].detail}"
            )
        games = [game for episode in played for game in episode.games]
        wins = sum(game.outcome > 0 for game in games)
        # A cut game has outcome 0 but is no draw: nobody agreed to one.
        draws = sum(game.outcome == 0 and game.end_reason is EndReason.FINISHED for game in games)
        num_replies = sum(len(episode.replies) for episode in played)
        low, high = wilson_interval(wins, len(games))
        return cls(
            games=len(games),
            win_rate=wins / len(games),
            win_rate_low=low,
            win_rate_high=high,
            draw_rate=draws / len(games),
            loss_rate=(len(games) - wins - draws) / len(games),
            illegal_rate=sum(episode.num_forfeits for episode in played) / max(1, num_replies),
        )

    @property
    def score(self) -> float:
        """Points per game: 1 for a win, 0.5 for a draw."""
        return self.win_rate + self.draw_rate / 2

    def gain_over(self, earlier: "MatchResult") -> tuple[float, float, float]:
        """Difference in win rate to an earlier match with its 95 % interval: (gain, low, high)."""
        low, high = difference_interval(
            round(earlier.win_rate * earlier.games),
            earlier.games,
            round(self.win_rate * self.games),
            self.games,
        )
        return self.win_rate - earlier.win_rate, low, high

    def to_dict(self) -> dict[str, int | float]:
        """Return the figures by name, as `summary.json` holds them."""
        return asdict(self)
