"""Those who play while the learner learns, as it sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from earl_trainer.asynchronous.ledger import FinishedGroup
from earl_trainer.types import EpisodeStart, RunFailedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Yield:
    """What a worker has done since it was last asked."""

    groups: Sequence[FinishedGroup]
    busy_s: float
    idle_s: float
    """Without anything to play."""
    peak_resident_tokens: int
    reward_wait_s: float = 0.0
    """Of the idle time, that with games whose rewards were not there yet."""


class LostRolloutWorkerError(RunFailedError):
    """A process that generates is gone."""

    def __init__(self, worker: int, why: str) -> None:
        super().__init__(f"rollout worker {worker} is gone: {why}")
        self.worker = worker


@runtime_checkable
class Workers(Protocol):
    """Workers that play at the same time; each is told and asked by its number.

    A worker that is lost raises `LostRolloutWorkerError` from whatever is asked of it, until it is
    started anew.
    """

    @property
    def num_workers(self) -> int:
        """How many there are, lost ones included."""
        ...

    def share(self, value: object) -> object:
        """Put a value where all workers can read it."""
        ...

    def publish(
        self, worker: int, version: int, weights: object, checksums: Sequence[int] | None
    ) -> None:
        """Hand new weights, shared before, to a worker; `wait_for_weights` waits for it.

        With None they are those that have arrived in its process in another way.
        """
        ...

    def wait_for_weights(self, timeout_s: float) -> Sequence[int]:
        """Return the workers that do not yet generate with the weights they were handed last.

        It waits at most so long for there to be none.
        """
        ...

    def grant(self, worker: int, groups: Sequence[tuple[int, Sequence[EpisodeStart]]]) -> None:
        """Hand groups, by their numbers, to a worker."""
        ...

    def take(
        self, workers: Sequence[int], timeout_s: float
    ) -> Mapping[int, Yield | LostRolloutWorkerError]:
        """Return what workers have to tell, waiting for the first of them at most so long.

        Of a worker that is gone it is that: what the others told is not lost with it.
        """
        ...

    def restart(self, worker: int) -> None:
        """Start a lost worker anew; it has neither weights nor groups."""
        ...

    def abandon(self, worker: int) -> None:
        """Do without a lost worker."""
        ...

    def close(self) -> None:
        """End all workers, whatever they do; a second time does nothing."""
        ...
