"""Makes the checkups of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from earl_envs import Game, Opponent, make_opponent

from earl_trainer.checkpoint import CheckpointStore
from earl_trainer.evaluation.checkup import (
    Checkup,
    CheckupHistory,
    pair_result,
    weights_name,
)
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.evaluation.optimal_moves import Solver, count_optimal
from earl_trainer.evaluation.playing import MatchPlan, play_match
from earl_trainer.rollout.collector import Collector
from earl_trainer.rollout.policies import ReplyPolicy
from earl_trainer.types import EpisodeSummary
from earl_trainer.workers.team import Team


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Examiner:
    """Plays the matches of a checkup, the same games every time.

    Every worker of a team has one and calls it at the same steps. Past weights are kept in folders
    of their own, so that checkpoints need not be. What a checkup touches of the engine is its
    caches; nothing of the run's course depends on it.
    """

    every_steps: int
    """From one checkup to the next; 0 makes none."""
    opponents: Sequence[str]
    """At least one; the first is rated 0."""
    num_past_selves: int
    plan: MatchPlan
    game: Game
    seat: Callable[[Opponent | ReplyPolicy], Collector]
    """Makes a collector whose matches are against somebody."""
    policy: ReplyPolicy
    """Plays as the present weights."""
    past_weights: CheckpointStore
    """Of earlier checkups."""
    load: Callable[[Path], ReplyPolicy]
    """Makes a player of a model folder."""
    solver: Solver | None
    """Knows optimal moves, where they are to be counted."""
    team: Team

    def is_due(self, step: int, history: CheckupHistory, *, at_end: bool) -> bool:
        """Whether the weights before a step are to be examined, and have not been."""
        if not self.every_steps or history.step == step:
            return False
        return at_end or step % self.every_steps == 0

    def examine(
        self,
        step: int,
        history: CheckupHistory,
        *,
        save_model: Callable[[Path], None],
        show: Callable[[str], None],
    ) -> tuple[Checkup, CheckupHistory]:
        """Play against everybody and rate the weights; all workers of the team call it.

        Args:
            step: The one that the present weights come before.
            history: Of the checkups so far.
            save_model: Writes the weights into a folder.
            show: Is told how far it is.

        Raises:
            RunFailedError: If all games against a fixed opponent failed.
        """
        games = {name: self._play(make_opponent(name), show) for name in self.opponents}
        matches = {name: MatchResult.of(episodes) for name, episodes in games.items()}
        past_selves = self._meet_past_selves(step, show)
        name = weights_name(step)
        met = {**matches, **past_selves}
        results = [pair_result(name, other, match) for other, match in met.items()]
        # A run that was sent back comes to this step with other weights.
        kept = [result for result in history.results if result.a != name]
        history = replace(history, results=(*kept, *results))
        checkup = Checkup(
            step=step,
            matches=matches,
            past_selves=past_selves,
            ratings=history.ratings(self.opponents[0]),
            optimal=None
            if self.solver is None
            else count_optimal(
                self.game, [each for played in games.values() for each in played], self.solver
            ),
        )
        self._keep_weights(step, save_model)
        return checkup, replace(history, latest=checkup.figures())

    def summary(self, history: CheckupHistory) -> dict[str, Any]:  # Any: plain values for JSON
        """Return the last checkup's figures, and everybody's rating by all that was played."""
        ratings = history.ratings(self.opponents[0]) if history.results else []
        return {
            "latest": dict(history.latest),
            "ratings": {
                rating.name: {
                    "elo": rating.elo,
                    "low": rating.interval[0],
                    "high": rating.interval[1],
                    "games": rating.num_games,
                }
                for rating in ratings
            },
        }

    def _play(
        self, rival: Opponent | ReplyPolicy, show: Callable[[str], None]
    ) -> list[EpisodeSummary]:
        return play_match(self.seat(rival), self.policy, self.plan, self.team, show)

    def _meet_past_selves(
        self, step: int, show: Callable[[str], None]
    ) -> Mapping[str, MatchResult]:
        """Play against the latest weights before; who fails at every game is left out."""
        if not self.num_past_selves:
            return {}
        # Every worker looks before the first one writes: see `_keep_weights`.
        earlier = [each for each in self.past_weights.complete().items() if each[0] < step]
        played = {
            weights_name(past): self._play(self.load(folder / "model"), show)
            for past, folder in earlier[-self.num_past_selves :]
        }
        return {
            name: MatchResult.of(episodes)
            for name, episodes in played.items()
            if not all(episode.failed for episode in episodes)
        }

    def _keep_weights(self, step: int, save_model: Callable[[Path], None]) -> None:
        if not self.num_past_selves:
            return
        if self.team.is_first:
            # Those of steps that a run was sent back from, or had made before it was killed.
            self.past_weights.drop_after(step)
            self.past_weights.save(step, lambda folder: save_model(folder / "model"))
        self.team.everyone.all_gather(None)
