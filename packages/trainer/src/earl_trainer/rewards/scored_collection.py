"""A collection whose episodes are scored, in one batch, before they are handed on."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, final

from torch import nn

from earl_trainer.rewards.scorer import Scorer, add_scores
from earl_trainer.rollout.collection import Collection
from earl_trainer.rollout.collector import Rollout


@final
class ScoredCollection:
    """Has the episodes of another collection scored.

    Args:
        games: Plays; closed with this.
        scorers: Closed with this, too.
        on_failure: As of `add_scores`.
    """

    def __init__(
        self,
        games: Collection,
        scorers: Sequence[Scorer],
        *,
        on_failure: Literal["drop", "zero"],
    ) -> None:
        self._games = games
        self.scorers = scorers
        """All of them."""
        self._on_failure: Literal["drop", "zero"] = on_failure
        self._scored_s = 0.0

    @property
    def figures(self) -> Mapping[str, float]:
        """Those of the games, and how long scoring took; the engine waited for it."""
        waited_s = self._games.figures.get("reward/wait_s", 0.0) + self._scored_s
        return {**self._games.figures, "reward/wait_s": waited_s}

    def collect(
        self,
        step: int,
        *,
        share_tokens: int | None,
        max_responses: int | None = None,
        on_turn: Callable[[str], None],
    ) -> Rollout:
        """Return the episodes of a step, scored."""
        rollout = self._games.collect(
            step, share_tokens=share_tokens, max_responses=max_responses, on_turn=on_turn
        )
        on_turn("scoring")
        start_s = time.perf_counter()
        episodes = add_scores(rollout.episodes, self.scorers, on_failure=self._on_failure)
        self._scored_s = time.perf_counter() - start_s
        return replace(rollout, episodes=episodes)

    def publish(self, model: nn.Module, version: int) -> None:
        """Tell who plays of new weights."""
        self._games.publish(model, version)

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return what a run that goes on needs to know of games under way."""
        return self._games.to_dict()

    def close(self) -> None:
        """End what plays, and what scores."""
        self._games.close()
        for scorer in self.scorers:
            scorer.close()
