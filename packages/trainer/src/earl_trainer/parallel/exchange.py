"""Carrying out a re-shard plan between ranks, and cutting the learner's weights for them."""

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
import torch
import torch.distributed as dist
from earl_selector import ParallelLayout, ParameterSpec, ReshardPlan, SliceMove, plan_reshard
from jaxtyping import UInt8
from torch import Tensor

from earl_trainer.parallel.shards import Shards, shard_shape, take_shard

Packed = list[UInt8[np.ndarray, "_"]]
"""What one rank holds, parameter by parameter."""


def pack_shards(
    parameters: Mapping[str, Tensor],
    specs: Sequence[ParameterSpec],
    layout: ParallelLayout,
    rank: int,
) -> Packed:
    """Cut out of whole parameters what a rank holds, as bytes: 1 / tp of what is split."""
    return [
        take_shard(parameters[spec.name].detach(), spec, layout, rank)
        .contiguous()
        .cpu()
        .view(-1)
        .view(torch.uint8)
        .numpy()
        for spec in specs
    ]


def unpack_shards(packed: Packed, specs: Sequence[ParameterSpec], shards: Shards) -> None:
    """Overwrite a rank's shards by what was packed for it."""
    for spec, content in zip(specs, packed, strict=True):
        shard = shards[spec.name]
        # Copied, as what came through shared memory is read-only.
        flat = torch.from_numpy(content.copy()).view(shard.dtype)
        shard.copy_(flat.view(shard.shape))


def reshard(plan: ReshardPlan, shards: Shards, rank: int) -> tuple[Shards, int]:
    """Carry out a plan on the default process group, parameter by parameter; every rank calls it.

    Args:
        plan: The same on all ranks.
        shards: What this rank holds in the source layout; left as it is.
        rank: This one.

    Returns:
        What it holds in the target layout, and the bytes it received. A new shard that is a part
        of the old one takes no memory of its own; see `own_memory`.
    """
    moves = _by_parameter(plan, rank)
    fresh: Shards = {}
    received_bytes = 0
    for spec in plan.parameters:
        held = shards[spec.name]
        fresh[spec.name] = _start_shard(plan, spec, held, rank)
        received_bytes += _exchange(
            plan, spec, moves.get(spec.name, []), held, fresh[spec.name], rank
        )
    return fresh, received_bytes


def needed_bytes(plan: ReshardPlan, rank: int, *, num_models: int, num_awaited: int = 0) -> int:
    """Return the most that a rank holds while it carries out a plan for some models of one shape.

    Old and new shards side by side, but for new ones that are parts of old ones; and, of one
    parameter at a time, what travels, or the copy of such a part.

    Args:
        plan: Between two layouts.
        rank: This one.
        num_models: That are moved.
        num_awaited: That are not, as new weights follow: old shards go before new ones come.
    """
    moves = _by_parameter(plan, rank)
    old_bytes = new_bytes = fresh_bytes = most_bytes = 0
    for spec in plan.parameters:
        whole = spec.sharded_dim is None
        shard_bytes = spec.num_bytes // (1 if whole else plan.target.tp)
        old_bytes += spec.num_bytes // (1 if whole else plan.source.tp)
        new_bytes += shard_bytes
        passing_bytes = sum(move.num_bytes for move in moves.get(spec.name, []))
        if _keeps_all(plan, spec, rank):
            passing_bytes += 0 if whole else shard_bytes
        else:
            fresh_bytes += shard_bytes
        most_bytes = max(most_bytes, passing_bytes)
    moved_bytes = num_models * (old_bytes + fresh_bytes)
    return moved_bytes + num_awaited * max(old_bytes, new_bytes) + most_bytes


def explain_blocked(
    layouts: Sequence[ParallelLayout],
    specs: Sequence[ParameterSpec],
    *,
    memory_bytes: int,
    num_models: int,
) -> str:
    """Say in one line which changes no rank has the memory for by plan; empty if none is.

    Args:
        layouts: One per degree.
        specs: All parameters of a model.
        memory_bytes: Of one rank.
        num_models: Of this shape on every rank.
    """
    blocked: list[str] = []
    for source, target in permutations(layouts, 2):
        plan = plan_reshard(source, target, specs)
        ranks = range(source.num_ranks)
        most_bytes = max(needed_bytes(plan, rank, num_models=num_models) for rank in ranks)
        if most_bytes > memory_bytes:
            blocked.append(f"from tp {source.tp} to tp {target.tp} takes {most_bytes:,} bytes")
    if not blocked:
        return ""
    return (
        f"done only along with new weights, as a rank has {memory_bytes:,} bytes: a change "
        f"{', or '.join(blocked)}"
    )


def _exchange(
    plan: ReshardPlan,
    spec: ParameterSpec,
    moves: Sequence[SliceMove],
    held: Tensor,
    fresh: Tensor,
    rank: int,
) -> int:
    """Send and receive the moves of one parameter; return the bytes received."""
    messages = {
        move: _as_bytes(_slice_of(held, move, spec, plan.source, rank).contiguous())
        for move in moves
        if move.source_rank == rank
    }
    parts = {
        move: torch.empty_like(
            _slice_of(fresh, move, spec, plan.target, rank), memory_format=torch.contiguous_format
        )
        for move in moves
        if move.target_rank == rank
    }
    operations = [
        dist.P2POp(dist.isend, message, move.target_rank) for move, message in messages.items()
    ]
    operations += [
        dist.P2POp(dist.irecv, _as_bytes(part), move.source_rank) for move, part in parts.items()
    ]
    if operations:
        for work in dist.batch_isend_irecv(operations):
            work.wait()
    for move, part in parts.items():
        _slice_of(fresh, move, spec, plan.target, rank).copy_(part)
    return sum(part.nbytes for part in parts.values())


def _as_bytes(tensor: Tensor) -> Tensor:
    return tensor.view(-1).view(torch.uint8)


def _start_shard(plan: ReshardPlan, spec: ParameterSpec, held: Tensor, rank: int) -> Tensor:
    """Make a shard of the target with what the rank holds of it, or take that if it is all."""
    start, end = plan.kept(spec, rank)
    first = start - _offset(spec, plan.source, rank)
    dim = spec.sharded_dim or 0
    if _keeps_all(plan, spec, rank):
        return held.narrow(dim, first, end - start) if held.ndim else held
    fresh = held.new_empty(shard_shape(spec, plan.target))
    if end > start:
        kept = held.narrow(dim, first, end - start)
        fresh.narrow(dim, start - _offset(spec, plan.target, rank), end - start).copy_(kept)
    return fresh


def _keeps_all(plan: ReshardPlan, spec: ParameterSpec, rank: int) -> bool:
    start, end = plan.kept(spec, rank)
    return end - start == spec.size // (1 if spec.sharded_dim is None else plan.target.tp)


def _by_parameter(plan: ReshardPlan, rank: int) -> dict[str, list[SliceMove]]:
    """Return the moves from and to a rank, in the plan's order, which is the same on all ranks."""
    moves: dict[str, list[SliceMove]] = {}
    for move in plan.moves:
        if rank in (move.source_rank, move.target_rank):
            moves.setdefault(move.parameter, []).append(move)
    return moves


def _offset(spec: ParameterSpec, layout: ParallelLayout, rank: int) -> int:
    return 0 if spec.sharded_dim is None else layout.interval(spec.size, rank)[0]


def _slice_of(
    shard: Tensor, move: SliceMove, spec: ParameterSpec, layout: ParallelLayout, rank: int
) -> Tensor:
    first = move.start - _offset(spec, layout, rank)
    return shard.narrow(spec.sharded_dim or 0, first, move.end - move.start)
