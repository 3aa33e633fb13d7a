"""A collection whose episodes are scored, in one batch, before they are handed on."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, final

from earl_trainer.rewards.scorer import Scorer, add_scores
from earl_trainer.rollout.collection import Collection, RolloutRequest
from earl_trainer.rollout.collection_layer import CollectionLayer
from earl_trainer.rollout.collector import Rollout


@final
class ScoredCollection(CollectionLayer):
    """Has the episodes of another collection scored; the engine waits for it.

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
        super().__init__(games)
        self.scorers = scorers
        """All of them."""
        self._on_failure: Literal["drop", "zero"] = on_failure
        self._scored_s = 0.0

    def collect(self, request: RolloutRequest) -> Rollout:
        """Return the episodes, scored."""
        rollout = self._games.collect(request)
        request.on_turn("scoring")
        start_s = time.perf_counter()
        episodes = add_scores(rollout.episodes, self.scorers, on_failure=self._on_failure)
        earlier_s = 0.0 if request.starts is None else self._scored_s
        self._scored_s = earlier_s + time.perf_counter() - start_s
        waited_s = self._games.figures.get("reward/wait_s", 0.0) + self._scored_s
        self._own_figures = {"reward/wait_s": waited_s}
        return replace(rollout, episodes=episodes)

    def close(self) -> None:
        """End what plays, and what scores."""
        super().close()
        for scorer in self.scorers:
            scorer.close()
