"""Who of a run's processes plays and who learns."""

from collections.abc import Sequence
from datetime import timedelta
from typing import final

import torch.distributed as dist
from torch import nn

from earl_trainer.types import EpisodeStart
from earl_trainer.workers.group import ALONE, Group


@final
class Team:
    """The workers of a run, seen from one of them.

    The first `num_rollout_workers` ranks play and prepare, the first `num_learner_workers` learn:
    a rank may do both, and rank 0, which also keeps the records, always does. Every worker goes
    through the same steps; where it has no part, it brings nothing. Tensors travel by NCCL where
    every worker has a GPU of its own, else by gloo.

    Lifecycle: made with the run, then `connect` in every process before the first step. A team of
    one has nobody to connect to.
    """

    def __init__(
        self,
        *,
        rank: int = 0,
        num_rollout_workers: int = 1,
        num_learner_workers: int = 1,
        own_gpus: bool = False,
    ) -> None:
        self.rank = rank
        self.num_rollout_workers = num_rollout_workers
        self.num_learner_workers = num_learner_workers
        self._own_gpus = own_gpus
        self.everyone = ALONE
        self.players = ALONE
        self.learners = ALONE

    @property
    def size(self) -> int:
        """Number of workers."""
        return max(self.num_rollout_workers, self.num_learner_workers)

    @property
    def is_first(self) -> bool:
        """Whether this process keeps the run's records."""
        return self.rank == 0

    @property
    def plays(self) -> bool:
        """Whether this process plays and prepares."""
        return self.rank < self.num_rollout_workers

    @property
    def learns(self) -> bool:
        """Whether this process takes part in updates."""
        return self.rank < self.num_learner_workers

    def connect(
        self,
        store: dist.Store,  # pyright: ignore[reportPrivateImportUsage]
        *,
        timeout_s: float,
    ) -> None:
        """Meet the others.

        Args:
            store: One that all of them reach.
            timeout_s: Longest time that one exchange may wait for the slowest.
        """
        backend = "cpu:gloo,cuda:nccl" if self._own_gpus else "gloo"
        dist.init_process_group(
            backend,
            store=store,
            rank=self.rank,
            world_size=self.size,
            timeout=timedelta(seconds=timeout_s),
        )
        self.everyone = Group(rank=self.rank, size=self.size, process_group=dist.group.WORLD)
        # Every process takes part in making a group, in the same order, also of those it is not in.
        self.players = self._make_group(self.num_rollout_workers, timeout_s=timeout_s)
        self.learners = self._make_group(self.num_learner_workers, timeout_s=timeout_s)

    def _make_group(self, size: int, *, timeout_s: float) -> Group:
        """Make the group of the first `size` ranks; who is not in it has a group of its own."""
        made = dist.new_group(list(range(size)), timeout=timedelta(seconds=timeout_s))
        if not isinstance(made, dist.ProcessGroup) or size == 1:
            return ALONE
        return Group(rank=self.rank, size=size, process_group=made)

    def disconnect(self) -> None:
        """Leave the others; a team of one has nobody to leave."""
        if self.everyone is not ALONE:
            self.everyone = self.players = self.learners = ALONE
            dist.destroy_process_group()

    def share(self, starts: Sequence[EpisodeStart]) -> list[EpisodeStart]:
        """Return this worker's part: consecutive tables, all workers' about equally many."""
        tables = list(dict.fromkeys(start.table for start in starts))
        mine = {tables[place] for place in self.span(len(tables))}
        return [start for start in starts if start.table in mine]

    def span(self, count: int) -> range:
        """Return this worker's part of so many things, all workers' about equally many."""
        first, end = (
            min(rank, self.num_rollout_workers) * count // self.num_rollout_workers
            for rank in (self.rank, self.rank + 1)
        )
        return range(first, end)

    def publish(self, model: nn.Module) -> None:
        """Give the first worker's weights to the workers that do not learn themselves."""
        if self.num_learner_workers < self.size:
            self.equalise(model)

    def equalise(self, model: nn.Module) -> None:
        """Give the first worker's weights to all others."""
        # Tied weights are one tensor under two names.
        tensors = {tensor.data_ptr(): tensor for tensor in model.state_dict().values()}
        for tensor in tensors.values():
            self.everyone.copy_from_first(tensor)
