"""Cores and GPUs of a Ray cluster, reserved for those who learn and generate."""

from typing import Any, final

# Says how Ray is to start its processes.
import earl_trainer.parallel.ray_ranks  # noqa: F401  # pyright: ignore[reportUnusedImport]
from earl_trainer.asynchronous.placement import AsyncPlacement
from earl_trainer.types import RunFailedError

import ray  # isort: skip - after it
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

_TIMEOUT_S = 30.0


@final
class ReservedPlace:
    """A placement group: a bundle on this machine for this process, and one for each worker.

    Args:
        placement: Who computes with how many cores.
        learner_gpu: The GPU that this process computes on; it is kept from the workers where there
            are enough others.
        timeout_s: Longest time that the cluster may take to find them.

    Raises:
        RunFailedError: If it does not have them.
    """

    def __init__(
        self,
        placement: AsyncPlacement,
        *,
        learner_gpu: int | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._shared = placement.shared
        self._worker_cores = placement.worker_cores
        num_gpus, num_workers = int(ray.cluster_resources().get("GPU", 0)), placement.num_workers
        if placement.shared:
            self._worker_gpus = 1 / num_workers if num_gpus else 0
        else:
            self._worker_gpus = 1 if num_gpus >= num_workers else 0
        apart = learner_gpu is not None and num_gpus > num_workers and not placement.shared
        self._group: Any = placement_group(
            placement.bundles(
                f"node:{own_address()}",
                learner_gpus=1 if apart else 0,
                worker_gpus=self._worker_gpus,
            ),
            strategy=placement.strategy,
        )
        self._holder: Any = None
        try:
            self._require(placement, timeout_s)
            if apart:
                self._hold(learner_gpu, timeout_s)
        except BaseException:
            self.close()
            raise

    def options(self, worker: int) -> dict[str, Any]:
        """Return the options of an actor that is to have a worker's bundle."""
        return {
            "num_cpus": 0 if self._shared else self._worker_cores[worker],
            "num_gpus": self._worker_gpus,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=1 + worker
            ),
        }

    def close(self) -> None:
        """Give everything back, and end whoever still runs there."""
        remove_placement_group(self._group)

    def _require(self, placement: AsyncPlacement, timeout_s: float) -> None:
        if self._group.wait(timeout_s):
            return
        free = ray.available_resources().get("CPU", 0)
        raise RunFailedError(
            f"within {timeout_s:g} s the cluster has found no place for the "
            f"{placement.learner_cores} cores of the process that learns, on its own machine, and "
            f"{', '.join(map(str, placement.worker_cores))} of the workers ({placement.strategy}); "
            f"{free:g} are free"
        )

    def _hold(self, learner_gpu: int | None, timeout_s: float) -> None:
        """Let an idle actor have the learner's GPU, which Ray would give to a worker else."""
        options: dict[str, Any] = {
            "num_cpus": 0,
            "num_gpus": 1,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=0
            ),
        }
        actor: Any = ray.remote(**options)(_Holder)
        self._holder = actor.remote()
        held = ray.get(self._holder.gpus.remote(), timeout=timeout_s)
        if held != [learner_gpu]:
            raise RunFailedError(
                f"the process that learns computes on GPU {learner_gpu}, but Ray has only GPU "
                f"{', '.join(map(str, held))} left for it"
            )


def own_address() -> str:
    """Return where other machines of the cluster reach this process."""
    return ray.util.get_node_ip_address()


class _Holder:
    """Does nothing on a GPU."""

    def gpus(self) -> list[int]:
        return [int(gpu) for gpu in ray.get_gpu_ids()]
