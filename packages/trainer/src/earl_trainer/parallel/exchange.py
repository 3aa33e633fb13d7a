"""Carrying out a re-shard plan between ranks, and cutting the learner's weights for them."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.distributed as dist
from earl_selector import ParallelLayout, ParameterSpec, ReshardPlan, SliceMove
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
    """Carry out a plan on the default process group; every rank calls it.

    Args:
        plan: The same on all ranks.
        shards: What this rank holds in the source layout; left as it is.
        rank: This one.

    Returns:
        What it holds in the target layout, in memory of its own, and the bytes it received.
    """
    fresh = {spec.name: _start_shard(plan, spec, shards, rank) for spec in plan.parameters}
    specs = {spec.name: spec for spec in plan.parameters}
    outgoing, incoming = _by_peer(plan.moves, rank)
    buffers = {
        peer: torch.empty(
            sum(move.num_bytes for move in moves), dtype=torch.uint8, device=_device(fresh)
        )
        for peer, moves in incoming.items()
    }
    messages = {
        peer: torch.cat([
            _slice_of(shards[move.parameter], move, specs, plan.source, rank)
            .contiguous()
            .view(-1)
            .view(torch.uint8)
            for move in moves
        ])
        for peer, moves in outgoing.items()
    }
    operations = [dist.P2POp(dist.isend, message, peer) for peer, message in messages.items()]
    operations += [dist.P2POp(dist.irecv, buffer, peer) for peer, buffer in buffers.items()]
    if operations:
        for work in dist.batch_isend_irecv(operations):
            work.wait()
    for peer, moves in incoming.items():
        parts = buffers[peer].split([move.num_bytes for move in moves])
        for move, part in zip(moves, parts, strict=True):
            target = _slice_of(fresh[move.parameter], move, specs, plan.target, rank)
            target.copy_(part.clone().view(target.dtype).view(target.shape))
    return fresh, sum(buffer.nbytes for buffer in buffers.values())


def _start_shard(plan: ReshardPlan, spec: ParameterSpec, shards: Shards, rank: int) -> Tensor:
    """Make a shard of the target, with what the rank holds of it already."""
    held = shards[spec.name]
    fresh = held.new_empty(shard_shape(spec, plan.target))
    start, end = plan.kept(spec, rank)
    if end > start:
        dim = spec.sharded_dim or 0
        old = _offset(spec, plan.source, rank)
        new = _offset(spec, plan.target, rank)
        if fresh.ndim:
            kept = held.narrow(dim, start - old, end - start)
            fresh.narrow(dim, start - new, end - start).copy_(kept)
        else:
            fresh.copy_(held)
    return fresh


def _offset(spec: ParameterSpec, layout: ParallelLayout, rank: int) -> int:
    return 0 if spec.sharded_dim is None else layout.interval(spec.size, rank)[0]


def _slice_of(
    shard: Tensor,
    move: SliceMove,
    specs: Mapping[str, ParameterSpec],
    layout: ParallelLayout,
    rank: int,
) -> Tensor:
    spec = specs[move.parameter]
    first = move.start - _offset(spec, layout, rank)
    return shard.narrow(spec.sharded_dim or 0, first, move.end - move.start)


def _by_peer(
    moves: Sequence[SliceMove], rank: int
) -> tuple[dict[int, list[SliceMove]], dict[int, list[SliceMove]]]:
    outgoing: dict[int, list[SliceMove]] = {}
    incoming: dict[int, list[SliceMove]] = {}
    for move in moves:
        if move.source_rank == rank:
            outgoing.setdefault(move.target_rank, []).append(move)
        if move.target_rank == rank:
            incoming.setdefault(move.source_rank, []).append(move)
    return outgoing, incoming


def _device(shards: Shards) -> torch.device:
    return next(iter(shards.values())).device
