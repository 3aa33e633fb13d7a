"""The processes that generate, as actors of a Ray cluster, seen from the process that learns."""

import time
from collections.abc import Callable, Sequence
from typing import Any, final

from earl_trainer.asynchronous.flat_weights import FlatLayout
from earl_trainer.asynchronous.placement import AsyncPlacement
from earl_trainer.asynchronous.ray_placement import ReservedPlace
from earl_trainer.asynchronous.receiver import WeightReceiver
from earl_trainer.asynchronous.weight_group import Meeting
from earl_trainer.asynchronous.worker import RolloutWorker
from earl_trainer.asynchronous.workers import LostRolloutWorkerError, Yield
from earl_trainer.parallel.exchange import Packed
from earl_trainer.parallel.ray_ranks import join_cluster
from earl_trainer.types import EpisodeStart

import ray  # isort: skip - after the module that says how it is to start its processes
from ray.exceptions import RayActorError, RayError, RayTaskError

_START_TIMEOUT_S = 180.0
_CLOSE_TIMEOUT_S = 2.0
# Calls that wait at the same time: one for new weights to be used, one for others to arrive, one
# for groups, one that hands some over, and one of a broadcast that has failed elsewhere.
_CONCURRENT_CALLS = 5


@final
class RolloutPool:
    """`Workers` that are actors.

    Lifecycle: made, then any call, then `close`, which ends the processes at once, and the cluster
    if it was started here.

    Args:
        placement: How many there are, and the cores of each.
        make: Makes a worker, by its number, in its own process.
        address: Of a running Ray cluster; empty starts one on this machine.
        learner_gpu: The GPU that this process computes on, which no worker is to have.
        store_bytes: The most that is shared between processes, for a cluster started here.

    Raises:
        RunFailedError: If the cluster has no place for them, or they do not start.
    """

    def __init__(
        self,
        placement: AsyncPlacement,
        make: Callable[[int], RolloutWorker],
        *,
        address: str = "",
        learner_gpu: int | None = None,
        store_bytes: int,
    ) -> None:
        self._owns_cluster = join_cluster(
            address, num_cpus=placement.num_cpus, store_bytes=store_bytes
        )
        self._make = make
        self._place: ReservedPlace | None = None
        self._actors: list[Any] = []
        self._taking: list[Any] = []
        self._loading: list[Any] = []
        self._receivers = _Receivers(lambda worker: self._actors[worker], self._get)
        try:
            self._place = ReservedPlace(placement, learner_gpu=learner_gpu)
            self._actors = [self._start(worker) for worker in range(placement.num_workers)]
            self._taking = [None] * placement.num_workers
            self._loading = [None] * placement.num_workers
            for worker in range(placement.num_workers):
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

    @property
    def receivers(self) -> "_Receivers":
        """The receiving ends of a broadcast, one in each worker's process."""
        return self._receivers

    def share(self, value: object) -> object:
        """Put a value where all workers can read it."""
        return ray.put(value)

    def publish(
        self, worker: int, version: int, weights: object, checksums: Sequence[int] | None = None
    ) -> None:
        """Hand new weights, shared before, to a worker; `wait_for_weights` waits for it.

        With None they are those that have arrived at its receiver.
        """
        self._loading[worker] = self._actors[worker].publish.remote(version, weights, checksums)

    def wait_for_weights(self, timeout_s: float) -> Sequence[int]:
        """Return the workers that do not yet generate with the weights they were handed last.

        It waits at most so long for there to be none.

        Raises:
            LostRolloutWorkerError: If one is gone.
        """
        deadline_s = time.monotonic() + timeout_s
        for worker, reference in enumerate(self._loading):
            if reference is None:
                continue
            left_s = max(0.0, deadline_s - time.monotonic())
            ready, _ = ray.wait([reference], timeout=left_s)
            if ready:
                self._get(worker, reference, timeout_s=None)
                self._loading[worker] = None
        return [worker for worker, left in enumerate(self._loading) if left is not None]

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
        self._end(worker)

    def restart(self, worker: int) -> None:
        """Start a lost worker anew; it has neither weights nor groups.

        Raises:
            LostRolloutWorkerError: If it does not start.
        """
        self._end(worker)
        self._actors[worker] = self._start(worker)
        self._get(worker, self._actors[worker].ready.remote(), _START_TIMEOUT_S)

    def close(self) -> None:
        """End all workers, and the cluster if it is theirs; a second time does nothing."""
        actors, self._actors = self._actors, []
        self._taking = []
        self._loading = []
        place, self._place = self._place, None
        try:
            _end_all(actors)
            if place is not None:
                place.close()
        finally:
            if self._owns_cluster:
                ray.shutdown()
                self._owns_cluster = False

    def _start(self, worker: int) -> Any:  # noqa: ANN401 - its methods gain `remote`
        assert self._place is not None
        options: dict[str, Any] = self._place.options(worker)
        options["max_concurrency"] = _CONCURRENT_CALLS
        actor: Any = ray.remote(**options)(_Actor)
        return actor.remote(self._make, worker)

    def _end(self, worker: int) -> None:
        _end_all([self._actors[worker]])
        self._taking[worker] = self._loading[worker] = None
        self._receivers.forget(worker)

    def _get(self, worker: int, reference: Any, timeout_s: float | None) -> Any:  # noqa: ANN401
        try:
            return ray.get(reference, timeout=timeout_s)
        except RayTaskError as error:
            raise LostRolloutWorkerError(worker, f"it failed: {error.cause!r}") from error
        except RayActorError as error:
            raise LostRolloutWorkerError(worker, "its process has ended") from error
        except RayError as error:
            raise LostRolloutWorkerError(worker, " ".join(str(error).split())) from error


@final
class _Receivers:
    """The `WeightReceiver`s of a pool's workers."""

    def __init__(
        self, find_actor: Callable[[int], Any], get: Callable[[int, Any, float | None], Any]
    ) -> None:
        self._find_actor = find_actor
        self._get = get
        self._asked: dict[int, Any] = {}

    def join(self, worker: int, meeting: Meeting) -> None:
        """Make a receiver meet others; `hear` tells how it went."""
        self._asked[worker] = self._find_actor(worker).join.remote(meeting)

    def receive(self, worker: int, layout: FlatLayout, bucket_bytes: int) -> None:
        """Make a receiver take part in a broadcast; `hear` tells how it went."""
        self._asked[worker] = self._find_actor(worker).receive.remote(layout, bucket_bytes)

    def hear(self, timeout_s: float) -> dict[int, str | None]:
        """Return what went wrong at those that have done as they were told; wait for the first.

        Raises:
            LostRolloutWorkerError: If one is gone.
        """
        workers = {reference: worker for worker, reference in self._asked.items()}
        if not workers:
            return {}
        ready, _ = ray.wait(list(workers), timeout=timeout_s)
        for reference in ready:
            del self._asked[workers[reference]]
        return {workers[each]: self._get(workers[each], each, None) for each in ready}

    def forget(self, worker: int) -> None:
        """Hear no more of a worker that is gone."""
        self._asked.pop(worker, None)


def _end_all(actors: Sequence[Any]) -> None:
    """End processes, whatever they do; those that can put their files away first."""
    if actors:
        ray.wait(
            [actor.close.remote() for actor in actors],
            num_returns=len(actors),
            timeout=_CLOSE_TIMEOUT_S,
        )
    for actor in actors:
        ray.kill(actor)


class _Actor:
    """A worker's process."""

    def __init__(self, make: Callable[[int], RolloutWorker], worker: int) -> None:
        self._worker = make(worker)
        self._receiver = WeightReceiver()

    def ready(self) -> int:
        import os

        return os.getpid()

    def publish(self, version: int, packed: Packed | None, checksums: Sequence[int] | None) -> int:
        arrived = self._receiver.take() if packed is None else packed
        return self._worker.publish(version, arrived, checksums)

    def join(self, meeting: Meeting) -> str | None:
        return self._receiver.join(meeting)

    def receive(self, layout: FlatLayout, bucket_bytes: int) -> str | None:
        return self._receiver.receive(layout, bucket_bytes)

    def grant(self, groups: Sequence[tuple[int, Sequence[EpisodeStart]]]) -> None:
        self._worker.grant(groups)

    def take(self, timeout_s: float) -> Yield:
        return self._worker.take(timeout_s)

    def close(self) -> None:
        self._worker.close()
