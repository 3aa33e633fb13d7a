"""Who of several workers plays the next group."""

from collections.abc import Mapping, Sequence
from typing import final

_MIN_GROUPS = 4
"""That every worker has to have finished before their speeds are compared."""


@final
class WorkerShares:
    """Lets workers have groups in proportion to their speeds, so that all end at about one time.

    A speed is the groups that a worker finished, by the time that it played. Until everyone has
    finished a few, the cores stand for it.

    Args:
        worker_cores: That each worker computes with.
    """

    def __init__(self, worker_cores: Sequence[int]) -> None:
        self._worker_cores = worker_cores
        self._num_groups = [0] * len(worker_cores)
        self._busy_s = [0.0] * len(worker_cores)

    def add(self, worker: int, *, num_groups: int, busy_s: float) -> None:
        """Add what a worker did since it was last asked."""
        self._num_groups[worker] += num_groups
        self._busy_s[worker] += busy_s

    def choose(self, playing: Mapping[int, int]) -> int:
        """Return who would be done first with one group more.

        Args:
            playing: How many groups each worker has now.
        """
        speeds = self._speeds(list(playing))
        return min(playing, key=lambda worker: (playing[worker] + 1) / speeds[worker])

    def _speeds(self, workers: Sequence[int]) -> Mapping[int, float]:
        if any(
            self._num_groups[worker] < _MIN_GROUPS or self._busy_s[worker] <= 0.0
            for worker in workers
        ):
            return {worker: float(self._worker_cores[worker]) for worker in workers}
        return {worker: self._num_groups[worker] / self._busy_s[worker] for worker in workers}
