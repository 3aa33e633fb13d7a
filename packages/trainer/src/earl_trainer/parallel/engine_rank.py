"""One rank of an engine that is split over several: its shard, and its part in decoding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from earl_dispatch import Columns
from earl_selector import ParallelLayout, ParameterSpec, ReshardPlan
from jaxtyping import Float
from torch import Tensor
from torch.distributed import ProcessGroup
from transformers import PreTrainedModel

from earl_trainer.experience.prepare import score_columns
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.parallel.exchange import Packed, needed_bytes, reshard, unpack_shards
from earl_trainer.parallel.sharded_model import build_sharded, drop_shards, put_shards
from earl_trainer.parallel.shards import ShardedWeights, Shards, own_memory
from earl_trainer.rollout.engine import Completion, Request
from earl_trainer.rollout.transformers_engine import TransformersEngine

POLICY, REFERENCE = "policy", "reference"
"""The models that ranks may hold, of one shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSettings:
    """What all ranks know."""

    blueprint: Blueprint
    parameters: tuple[ParameterSpec, ...]
    degrees: tuple[int, ...]
    num_ranks: int
    stop_ids: frozenset[int]
    memory_bytes: int
    """Of one rank, for its shard and the contexts in flight."""
    kv_bytes_per_token: Mapping[int, int]
    """Degree -> bytes that a token of context takes on each rank."""
    num_threads: int
    """That each rank computes with."""
    timeout_s: float
    """Longest time that one exchange may wait for the slowest rank."""

    def layout(self, tp: int) -> ParallelLayout:
        """Return who holds what at a degree."""
        return ParallelLayout(num_ranks=self.num_ranks, tp=tp, degrees=self.degrees)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """What one rank holds."""

    weights_bytes: int
    kv_bytes: int
    peak_kv_bytes: int
    """The most since the weights were loaded."""
    budget_bytes: int
    received_bytes: int
    """Of weights that came to it since it was started."""


class EngineRank:
    """One rank. All ranks of the engine that is meant get the same calls in the same order.

    A change of degree has two halves: `begin_switch` makes the new shard beside the old one, or
    finds it in there, and only when that has worked everywhere `end_switch` takes it into use;
    `abandon_switch` forgets it. Of a model whose new weights are awaited nothing is moved: the old
    shard is let go at the end, and `load` has to follow. No conversation outlives a switch, whose
    cache has another layout.

    Args:
        settings: The same for all.
        rank: This one.
        tp: The first degree.
    """

    def __init__(self, settings: RankSettings, rank: int, *, tp: int) -> None:
        self._settings = settings
        self._rank = rank
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._groups: dict[int, ProcessGroup | None] = {1: None}
        self._models: dict[tuple[str, int], PreTrainedModel] = {}
        self._layout = settings.layout(tp)
        self._weights: dict[str, ShardedWeights] = {}
        self._pending: tuple[ParallelLayout, dict[str, Shards]] | None = None
        self._engine: TransformersEngine | None = None
        self._version = 0
        self._received_bytes = 0

    def connect(self, init_method: str) -> None:
        """Meet the others; groups are made for every degree at once and kept."""
        settings = self._settings
        timeout = timedelta(seconds=settings.timeout_s)
        backend = "cpu:gloo,cuda:nccl" if self._device.type == "cuda" else "gloo"
        dist.init_process_group(
            backend,
            init_method=init_method,
            rank=self._rank,
            world_size=settings.num_ranks,
            timeout=timeout,
        )
        for tp in settings.degrees:
            layout = settings.layout(tp)
            for engine in range(layout.dp if tp > 1 else 0):
                ranks = sorted(layout.ranks_of(engine))
                # Every rank takes part in making every group, in the same order.
                group = dist.new_group(ranks, timeout=timeout)
                if self._rank in ranks:
                    assert isinstance(group, ProcessGroup)
                    self._groups[tp] = group
        self._hold(POLICY)
        self._use()

    def load(self, role: str, version: int, packed: Packed) -> None:
        """Take over a model's weights, cut for the layout in use; those of `POLICY` generate."""
        held = self._weights.get(role) or self._hold(role)
        unpack_shards(packed, self._settings.parameters, held.shards)
        self._received_bytes += sum(content.nbytes for content in packed)
        if role == POLICY:
            self._version = version
            self._require_engine().load_weights(version)
        else:
            self._use()

    def check_switch(self, plan: ReshardPlan, awaited: Sequence[str]) -> None:
        """Refuse a change of degree that this rank has no memory for.

        Args:
            plan: The same on all ranks.
            awaited: Roles of models whose new weights follow.

        Raises:
            ValueError: With both numbers.
        """
        budget_bytes = self._settings.memory_bytes
        num_moved = len(self._weights) - len(awaited)
        peak_bytes = needed_bytes(plan, self._rank, num_models=num_moved, num_awaited=len(awaited))
        if peak_bytes > budget_bytes:
            raise ValueError(
                f"old and new weights take {peak_bytes:,} bytes of a rank during the change to tp "
                f"{plan.target.tp}, more than its {budget_bytes:,}"
            )

    def begin_switch(self, plan: ReshardPlan, awaited: Sequence[str]) -> int:
        """Make this rank's shard of the new layout; return the bytes it received."""
        self._require_engine().load_weights(self._version)  # Its caches go first, to make room.
        fresh: dict[str, Shards] = {}
        received_bytes = 0
        for role, held in self._weights.items():
            if role not in awaited:
                fresh[role], num_bytes = reshard(plan, held.shards, self._rank)
                received_bytes += num_bytes
        self._pending = plan.target, fresh
        self._received_bytes += received_bytes
        return received_bytes

    def end_switch(self) -> None:
        """Compute with the new shards from now on."""
        assert self._pending is not None
        old_tp = self._layout.tp
        self._layout, fresh = self._pending
        self._pending = None
        for role, held in self._weights.items():
            drop_shards(self._models[role, old_tp])
            held.replace(self._layout, fresh.get(role, {}))
            own_memory(held.shards)
            if role not in fresh:
                self._hold(role)
        self._use()

    def abandon_switch(self) -> None:
        """Forget the new shard."""
        self._pending = None

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Take part in generating replies; all ranks of the engine return the same."""
        self._set_threads()
        return self._require_engine().generate(requests)

    def score(
        self, role: str, columns: Columns, temperature: float, max_tokens: int
    ) -> Float[Tensor, " tokens"]:
        """Take part in scoring samples; see `score_columns`. All ranks of the engine return it."""
        self._set_threads()
        # The budget holds a pass or a rollout's caches, not both, and rollouts are over by now.
        self._require_engine().close()
        model = self._models[role, self._layout.tp]
        return score_columns(model, columns, temperature=temperature, max_tokens=max_tokens)

    def interrupt(self) -> None:
        """Make a running `generate` stop at the next token, on all ranks of its engine alike."""
        if self._engine is not None:
            self._engine.interrupt()

    def memory(self) -> RankMemory:
        """Return what this rank holds now."""
        engine = self._require_engine()
        return RankMemory(
            weights_bytes=self._weights_bytes(),
            kv_bytes=engine.held_bytes,
            peak_kv_bytes=engine.peak_held_bytes,
            budget_bytes=self._settings.memory_bytes,
            received_bytes=self._received_bytes,
        )

    def _hold(self, role: str) -> ShardedWeights:
        self._weights[role] = ShardedWeights(
            self._settings.parameters,
            self._layout,
            self._rank,
            dtype=self._settings.blueprint.dtype,
            device=self._device,
        )
        return self._weights[role]

    def _weights_bytes(self) -> int:
        return sum(held.num_bytes for held in self._weights.values())

    def _use(self) -> None:
        """Compute with the shards in use; models without weights are kept per degree."""
        settings, tp = self._settings, self._layout.tp
        for role, held in self._weights.items():
            if (role, tp) not in self._models:
                self._models[role, tp] = build_sharded(
                    settings.blueprint,
                    settings.degrees,
                    self._layout,
                    self._rank,
                    self._groups[tp],
                    self._device,
                )
            put_shards(self._models[role, tp], held.shards)
        spare_bytes = settings.memory_bytes - self._weights_bytes()
        self._engine = TransformersEngine(
            self._models[POLICY, tp],
            stop_ids=settings.stop_ids,
            capacity_tokens=max(0, spare_bytes // settings.kv_bytes_per_token[tp]),
            agree=self._agree,
        )
        self._engine.load_weights(self._version)

    def _agree(self, interrupted: bool) -> bool:
        group = self._groups[self._layout.tp]
        if group is None:
            return interrupted
        flag = torch.tensor([interrupted], dtype=torch.int32, device=self._device)
        dist.all_reduce(flag, op=dist.ReduceOp.MAX, group=group)
        return bool(flag.item())

    def _set_threads(self) -> None:
        # Counted per thread that calls, and an actor's calls may come from several.
        torch.set_num_threads(self._settings.num_threads)

    def _require_engine(self) -> TransformersEngine:
        if self._engine is None:
            raise RuntimeError("connect this rank before it is used")
        return self._engine
