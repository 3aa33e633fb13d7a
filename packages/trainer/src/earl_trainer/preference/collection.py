"""Collections of samples that need no advantages: read from data, or made of games."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar, final

import numpy as np
from earl_dispatch import Columns
from torch import nn

from earl_trainer.rollout.collection import Collection, RolloutRequest
from earl_trainer.rollout.collection_layer import CollectionLayer
from earl_trainer.rollout.collector import Rollout
from earl_trainer.seeding import derive_seed
from earl_trainer.types import RunFailedError
from earl_trainer.workers.team import Team

Example = TypeVar("Example")
_MAX_EMPTY_STEPS = 5


@final
class DataCollection(Generic[Example]):
    """Takes every step's samples from a data set, pass after pass, each shuffled anew.

    Which examples a step takes depends on its number alone, so that a run that goes on repeats and
    leaves out none.

    Args:
        examples: The whole data set, at least one.
        build: Makes rows of some of them, maybe none; it is told the number of the step.
        per_step: Examples of a step.
        first_step: Of the phase.
        seed: Of the shuffles.
        team: Whose share this worker takes.
        wanted: What there is none of when five steps in a row bring no worker a row, in words.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        build: Callable[[Sequence[Example], int], Columns],
        *,
        per_step: int,
        first_step: int,
        seed: int,
        team: Team,
        wanted: str,
    ) -> None:
        self._examples = examples
        self._build = build
        self._per_step = per_step
        self._first_step = first_step
        self._seed = seed
        self._team = team
        self._harvest = _Harvest(team, wanted)
        self.takes_starts = False
        self.figures: Mapping[str, float] = {}

    def collect(self, request: RolloutRequest) -> Rollout:
        """Take this worker's share of the step's examples; nothing is played."""
        places = places_of_step(
            len(self._examples),
            request.step - self._first_step,
            per_step=self._per_step,
            seed=self._seed,
        )
        own = [self._examples[places[index]] for index in self._team.span(len(places))]
        samples = self._build(own, request.step)
        self._harvest.count(samples)
        self.figures = {"preference/rows": float(samples.num_rows)}
        return Rollout(episodes=[], peak_resident_tokens=0, samples=samples)

    def publish(self, model: nn.Module, version: int) -> None:
        """Do nothing: nobody plays."""

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return nothing: the step says what comes next."""
        return {}

    def close(self) -> None:
        """Do nothing: nothing is open."""


def places_of_step(num_examples: int, step: int, *, per_step: int, seed: int) -> list[int]:
    """Return which examples a step takes, of an endless row of shuffled passes.

    Args:
        num_examples: Of the data set, at least 1.
        step: From 0.
        per_step: Examples of a step; more than there are take several passes.
        seed: Of the shuffles.
    """
    orders: dict[int, list[int]] = {}
    places: list[int] = []
    for position in range(step * per_step, (step + 1) * per_step):
        epoch, place = divmod(position, num_examples)
        if epoch not in orders:
            rng = np.random.default_rng(derive_seed(seed, "data", epoch))
            orders[epoch] = rng.permutation(num_examples).tolist()
        places.append(orders[epoch][place])
    return places


@final
class PlayedCollection(CollectionLayer):
    """Makes every step's samples of the games that another collection plays.

    Args:
        games: Plays; closed with this.
        build: Makes rows of a step's games, maybe none.
        team: The workers.
        wanted: What there is none of when five steps in a row bring no worker a row, in words.
    """

    def __init__(
        self,
        games: Collection,
        build: Callable[[Rollout, int], Columns],
        *,
        team: Team,
        wanted: str,
    ) -> None:
        super().__init__(games)
        self._build = build
        self._harvest = _Harvest(team, wanted)

    def collect(self, request: RolloutRequest) -> Rollout:
        """Play, and make rows of what was played."""
        rollout = self._games.collect(request)
        samples = self._build(rollout, request.step)
        self._harvest.count(samples)
        self._own_figures = {"preference/rows": float(samples.num_rows)}
        return replace(rollout, samples=samples)


@final
class _Harvest:
    """Ends a run whose steps bring nothing to learn from, several of them in a row."""

    def __init__(self, team: Team, wanted: str) -> None:
        self._team = team
        self._wanted = wanted
        self._num_empty_steps = 0

    def count(self, samples: Columns) -> None:
        if sum(self._team.everyone.all_gather(samples.num_rows)):
            self._num_empty_steps = 0
            return
        self._num_empty_steps += 1
        if self._num_empty_steps == _MAX_EMPTY_STEPS:
            raise RunFailedError(
                f"there was nothing to learn from in {_MAX_EMPTY_STEPS} steps in a row: no "
                f"{self._wanted}"
            )
