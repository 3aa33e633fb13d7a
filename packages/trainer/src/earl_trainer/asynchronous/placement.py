"""Which of the cores and GPUs learn, and which generate."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

from earl_trainer.asynchronous.config import AsynchronousConfig

Strategy = Literal["SPREAD", "PACK", "STRICT_PACK"]
_STRATEGIES: Mapping[str, Strategy] = {
    "spread": "SPREAD",
    "pack": "PACK",
    "colocated": "STRICT_PACK",
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncPlacement:
    """The process that learns and the workers that generate, as a Ray placement group has them."""

    learner_cores: int
    """That the process that learns computes with."""
    worker_cores: tuple[int, ...]
    """That each worker computes with."""
    strategy: Strategy = "PACK"
    """Whether workers go to different machines, to few, or to the one of the learner."""
    shared: bool = False
    """Whether the workers compute on the learner's own cores and GPUs."""

    @property
    def num_workers(self) -> int:
        """How many workers generate."""
        return len(self.worker_cores)

    @property
    def split(self) -> float | None:
        """The share of the cores that generates; None where all cores do both."""
        if self.shared:
            return None
        return sum(self.worker_cores) / (self.learner_cores + sum(self.worker_cores))

    @property
    def num_cpus(self) -> int:
        """The cores that are reserved."""
        return self.learner_cores + (0 if self.shared else sum(self.worker_cores))

    def bundles(
        self, learner_node: str, *, learner_gpus: int = 0, worker_gpus: float | int = 0
    ) -> list[dict[str, float]]:
        """Return what is reserved: first for the learner, then for each worker.

        Args:
            learner_node: Name of the resource that only the learner's machine has.
            learner_gpus: That it has for itself.
            worker_gpus: That each worker computes with.
        """
        here = {learner_node: 0.001}
        bundles = [
            {"CPU": float(self.learner_cores), "GPU": float(learner_gpus), **here},
            *(
                {"GPU": float(worker_gpus), **here}
                if self.shared
                else {"CPU": float(cores), "GPU": float(worker_gpus)}
                for cores in self.worker_cores
            ),
        ]
        return [{name: some for name, some in bundle.items() if some} for bundle in bundles]


def place(rules: AsynchronousConfig, *, num_cores: int) -> AsyncPlacement:
    """Divide the cores of the learner's machine.

    Args:
        rules: Say how many workers there are, and with how many cores each; or what share of all
            cores generates, which the workers divide among them.
        num_cores: Of the learner's machine.

    Raises:
        ValueError: If the cores are said in two ways, or a share leaves somebody without one.
    """
    if rules.worker_cores and rules.num_workers not in {1, len(rules.worker_cores)}:
        raise ValueError(
            "asynchronous.worker_cores has an entry for each of asynchronous.num_workers, got "
            f"{len(rules.worker_cores)} and {rules.num_workers}"
        )
    ways = {
        "worker_cores": bool(rules.worker_cores),
        "split": rules.split > 0.0,
        "num_threads": rules.num_threads > 1,
    }
    if sum(ways.values()) > 1:
        chosen = " and ".join(f"asynchronous.{name}" for name, set_ in ways.items() if set_)
        raise ValueError(f"the cores of a worker are said in one way, got {chosen}")
    worker_cores = _worker_cores(rules, num_cores)
    shared = rules.placement == "colocated"
    return AsyncPlacement(
        # Where workers take more cores than there are, the learner still computes.
        learner_cores=num_cores if shared else max(1, num_cores - sum(worker_cores)),
        worker_cores=worker_cores,
        strategy=_STRATEGIES[rules.placement],
        shared=shared,
    )


def _worker_cores(rules: AsynchronousConfig, num_cores: int) -> tuple[int, ...]:
    if rules.worker_cores:
        return rules.worker_cores
    if not rules.split:
        return (rules.num_threads,) * rules.num_workers
    generating = min(max(round(rules.split * num_cores), rules.num_workers), num_cores - 1)
    if generating < rules.num_workers:
        raise ValueError(
            f"asynchronous.split leaves a core to the learner and to each of "
            f"asynchronous.num_workers, got {num_cores} cores for {rules.num_workers} workers"
        )
    each, more = divmod(generating, rules.num_workers)
    return tuple(each + (place < more) for place in range(rules.num_workers))
