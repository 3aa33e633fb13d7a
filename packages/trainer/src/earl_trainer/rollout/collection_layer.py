"""A rollout stage around another one, whose episodes it works on."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from torch import nn

from earl_trainer.rollout.collection import Collection, RolloutRequest
from earl_trainer.rollout.collector import Rollout


class CollectionLayer(ABC):
    """Works on the episodes of another collection before they are handed on.

    All that is not about episodes is the other one's: new weights, what is under way, the end.

    Args:
        games: Plays; closed with this.
    """

    def __init__(self, games: Collection) -> None:
        self._games = games
        self._own_figures: Mapping[str, float] = {}
        """Of the last step; they stand beside those of the other collection, and before them."""

    @abstractmethod
    def collect(self, request: RolloutRequest) -> Rollout:
        """Have the episodes played, and return what this makes of them."""

    @property
    def takes_starts(self) -> bool:
        """Whether the other collection plays further episodes of a step."""
        return self._games.takes_starts

    @property
    def figures(self) -> Mapping[str, float]:
        """What there is to report of the last step, of the other collection and of this one."""
        return {**self._games.figures, **self._own_figures}

    def publish(self, model: nn.Module, version: int) -> None:
        """Tell whoever generates elsewhere of new weights."""
        self._games.publish(model, version)

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return what a run that goes on needs to know of the episodes under way."""
        return self._games.to_dict()

    def close(self) -> None:
        """End what plays; a second time does nothing."""
        self._games.close()
