"""What a checkup of the weights found, and what a run remembers of its checkups."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, final

from earl_envs.evaluation.elo import PairResult, Rating, fit_elo

from earl_trainer.evaluation.match import MatchResult
from earl_trainer.evaluation.optimal_moves import OptimalMoves
from earl_trainer.guards.hacking import CHECKUP_SCORE, CHECKUP_STEP


def weights_name(step: int) -> str:
    """Name the run's weights before a step, as a player."""
    return f"step-{step:06d}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """How strong the weights before a step are."""

    step: int
    matches: Mapping[str, MatchResult]
    """Fixed opponent -> the match against it."""
    past_selves: Mapping[str, MatchResult]
    """Name of earlier weights -> the match against them."""
    ratings: Sequence[Rating]
    """Of everybody that has played in a checkup so far; the first fixed opponent is rated 0."""
    optimal: OptimalMoves | None
    """Of the moves against fixed opponents, where there is a solver."""

    @property
    def score(self) -> float:
        """Points per game against the fixed opponents, every opponent counting the same."""
        return sum(match.score for match in self.matches.values()) / len(self.matches)

    @property
    def rating(self) -> Rating:
        """Of these weights."""
        name = weights_name(self.step)
        return next(rating for rating in self.ratings if rating.name == name)

    def figures(self) -> dict[str, float]:
        """Return everything by name, for files and charts."""
        low, high = self.rating.interval
        matches = {
            f"checkup/{name}/{figure}": float(value)
            for name, match in self.matches.items()
            for figure, value in {**match.to_dict(), "score": match.score}.items()
        }
        selves = [match.score for match in self.past_selves.values()]
        optimal = {} if self.optimal is None else self.optimal.figures()
        return {
            CHECKUP_STEP: float(self.step),
            CHECKUP_SCORE: self.score,
            "checkup/elo": self.rating.elo,
            "checkup/elo_low": low,
            "checkup/elo_high": high,
            **({"checkup/past_selves_score": sum(selves) / len(selves)} if selves else {}),
            **matches,
            **{f"checkup/{name}": value for name, value in optimal.items()},
        }

    def describe(self) -> str:
        """Put it into one line."""
        figures = self.figures()
        points = ", ".join(f"{name} {match.score:.1%}" for name, match in self.matches.items())
        parts = [f"checkup before step {self.step + 1}: points against {points}"]
        if self.past_selves:
            parts.append(f"past selves {figures['checkup/past_selves_score']:.1%}")
        low, high = self.rating.interval
        parts.append(f"Elo {self.rating.elo:+.0f} [{low:+.0f}, {high:+.0f}]")
        if "checkup/optimal_share" in figures:
            share, random = (figures[f"checkup/optimal_share{of}"] for of in ("", "_of_random"))
            parts.append(f"{share:.1%} of moves optimal, of random ones {random:.1%}")
        return "; ".join(parts)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckupHistory:
    """What later checkups build on; it is saved with a run."""

    results: Sequence[PairResult] = ()
    """Of all matches so far."""
    latest: Mapping[str, float] = field(default_factory=dict[str, float])
    """Figures of the last checkup; none before the first."""

    @property
    def step(self) -> int | None:
        """The step of the last checkup."""
        return int(self.latest[CHECKUP_STEP]) if self.latest else None

    def ratings(self, anchor: str) -> list[Rating]:
        """Rate everybody by all matches at once, the anchor at 0, the strongest first."""
        return fit_elo(self.results, anchor=anchor)

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return the history as plain values."""
        return {
            "results": [asdict(result) for result in self.results],
            "latest": dict(self.latest),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "CheckupHistory":  # Any: parsed JSON
        """Rebuild a history from what `to_dict` returned."""
        return cls(
            results=tuple(PairResult(**result) for result in values["results"]),
            latest=values["latest"],
        )


def pair_result(name: str, other: str, match: MatchResult) -> PairResult:
    """Return the counts of a match, as ratings are made of them."""
    wins, draws = (round(rate * match.games) for rate in (match.win_rate, match.draw_rate))
    return PairResult(a=name, b=other, wins=wins, draws=draws, losses=match.games - wins - draws)
