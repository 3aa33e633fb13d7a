"""The processes that generate, as actors of a Ray cluster, seen from the process that learns."""

import time
from collections.abc import Callable, Sequence
from typing import Any, final

from earl_trainer.asynchronous.worker import RolloutWorker
from earl_trainer.asynchronous.workers import LostRolloutWorkerError, Yield
from earl_trainer.parallel.exchange import Packed
from earl_trainer.parallel.ray_ranks import join_cluster
from earl_trainer.types import EpisodeStart

import ray  # isort: skip - after the module that says how it is to start its processes
from ray.exceptions import RayActorError, RayError, RayTaskError

_START_TIMEOUT_S = 180.0
# Calls that wait at the same time: one for new weights, one for groups, one that hands some over.
_CONCURRENT_CALLS = 4


@final
class RolloutPool:
    """`Workers` that are actors.

    Lifecycle: made, then any call, then `close`, which ends the processes at once, and the cluster
    if it was started here.

    Args:
        num_workers: How many.
        make: Makes a worker, by its number, in its own process.
        num_threads: That each computes with.
        address: Of a running Ray cluster; empty starts one on this machine.
        store_bytes: The most that is shared between processes, for a cluster started here.
    """

    def __init__(
        self,
        num_workers: int,
        make: Callable[[int], RolloutWorker],
        *,
        num_threads: int,
        address: str = "",
        store_bytes: int,
    ) -> None:
        self._owns_cluster = join_cluster(
            address, num_cpus=num_workers * num_threads, store_bytes=store_bytes
        )
        num_gpus = 1 if ray.cluster_resources().get("GPU", 0) >= num_workers else 0
        options: dict[str, Any] = {
            "num_cpus": num_threads,
            "num_gpus": num_gpus,
            "max_concurrency": _CONCURRENT_CALLS,
        }
        self._actor: Any = ray.remote(**options)(_Actor)  # Any: its methods gain `remote`.
        self._make = make
        self._actors: list[Any] = []
        self._taking: list[Any] = []
        self._loading: list[Any] = []
        try:
            self._actors = [self._actor.remote(make, worker) for worker in range(num_workers)]
            self._taking = [None] * num_workers
            self._loading = [None] * num_workers
            for worker in range(num_workers):
                self._get(worker, self._actors[worker].ready.remote(), _START_TIMEOUT_S)
        except BaseException:
            self.close()
            raise

    @property
    def num_workers(self) -> int:
        """How many there are, lost ones included."""
        return len(self._actors)

    def pids(self) -> list[int]:
        """Return the workers' processes."""
        return [
            self._get(worker, actor.ready.remote(), _START_TIMEOUT_S)
            for worker, actor in enumerate(self._actors)
        ]

    def share(self, value: object) -> object:
        """Put a value where all workers can read it."""
        return ray.put(value)

    def publish(
        self, worker: int, version: int, weights: object, checksums: Sequence[int] | None = None
    ) -> None:
        """Hand new weights, shared before, to a worker; `wait_for_weights` waits for it."""
        self._loading[worker] = self._actors[worker].publish.remote(version, weights, checksums)

    def wait_for_weights(self, timeout_s: float) -> bool:
        """Return whether all workers generate with the weights that they were handed last.

        Raises:
            LostRolloutWorkerError: If one is gone.
        """
        deadline_s = time.monotonic() + timeout_s
        for worker, reference in enumerate(self._loading):
            if reference is None:
                continue
            left_s = max(0.0, deadline_s - time.monotonic())
            ready, _ = ray.wait([reference], timeout=left_s)
            if not ready:
                return False
            self._get(worker, reference, timeout_s=None)
            self._loading[worker] = None
        return True

    def grant(self, worker: int, groups: Sequence[tuple[int, Sequence[EpisodeStart]]]) -> None:
        """Hand groups to a worker."""
        self._actors[worker].grant.remote(groups)

    def take(
        self, workers: Sequence[int], timeout_s: float
    ) -> dict[int, Yield | LostRolloutWorkerError]:
        """Return what workers have to tell, waiting for the first of them at most so long.

        Of a worker that is gone it is that: what the others told is not lost with it.
        """
        for worker in workers:
            if self._taking[worker] is None:
                self._taking[worker] = self._actors[worker].take.remote(timeout_s)
        asked = {self._taking[worker]: worker for worker in workers}
        ready, _ = ray.wait(list(asked), timeout=2.0 * timeout_s)
        told: dict[int, Yield | LostRolloutWorkerError] = {}
        for reference in ready:
            worker = asked[reference]
            try:
                told[worker] = self._get(worker, reference, timeout_s=None)
            except LostRolloutWorkerError as error:
                told[worker] = error
            self._taking[worker] = None
        return told

    def abandon(self, worker: int) -> None:
        """Do without a lost worker."""
        ray.kill(self._actors[worker])
        self._taking[worker] = self._loading[worker] = None

    def restart(self, worker: int) -> None:
        """Start a lost worker anew; it has neither weights nor groups.

        Raises:
            LostRolloutWorkerError: If it does not start.
        """
        ray.kill(self._actors[worker])
        self._actors[worker] = self._actor.remote(self._make, worker)
        self._taking[worker] = self._loading[worker] = None
        self._get(worker, self._actors[worker].ready.remote(), _START_TIMEOUT_S)

    def close(self) -> None:
        """End all workers, and the cluster if it is theirs; a second time does nothing."""
        actors, self._actors = self._actors, []
        self._taking = []
        self._loading = []
        try:
            for actor in actors:
                ray.kill(actor)
        finally:
            if self._owns_cluster:
                ray.shutdown()
                self._owns_cluster = False

    def _get(self, worker: int, reference: Any, timeout_s: float | None) -> Any:  # noqa: ANN401
        try:
            return ray.get(reference, timeout=timeout_s)
        except RayTaskError as error:
            raise LostRolloutWorkerError(worker, f"it failed: {error.cause!r}") from error
        except RayActorError as error:
            raise LostRolloutWorkerError(worker, "its process has ended") from error
        except RayError as error:
            raise LostRolloutWorkerError(worker, " ".join(str(error).split())) from error


class _Actor:
    """A worker's process."""

    def __init__(self, make: Callable[[int], RolloutWorker], worker: int) -> None:
        self._worker = make(worker)

    def ready(self) -> int:
        import os

        return os.getpid()

    def publish(self, version: int, packed: Packed, checksums: Sequence[int] | None) -> int:
        return self._worker.publish(version, packed, checksums)

    def grant(self, groups: Sequence[tuple[int, Sequence[EpisodeStart]]]) -> None:
        self._worker.grant(groups)

    def take(self, timeout_s: float) -> Yield:
        return self._worker.take(timeout_s)
