"""What a rank holds of a model's weights."""

from collections.abc import Sequence
from typing import final

import torch
from earl_selector import ParallelLayout, ParameterSpec
from torch import Tensor

Shards = dict[str, Tensor]
"""Name of each parameter -> what this rank holds of it."""


def take_shard(parameter: Tensor, spec: ParameterSpec, layout: ParallelLayout, rank: int) -> Tensor:
    """Return the view of a whole parameter that a rank holds."""
    if spec.sharded_dim is None:
        return parameter
    start, end = layout.interval(spec.size, rank)
    return parameter.narrow(spec.sharded_dim, start, end - start)


def shard_shape(spec: ParameterSpec, layout: ParallelLayout) -> list[int]:
    """Return the shape of what any rank holds of a parameter."""
    shape = list(spec.shape)
    if spec.sharded_dim is not None:
        shape[spec.sharded_dim] //= layout.tp
    return shape


def own_memory(shards: Shards) -> None:
    """Copy each shard that is only a part of what its memory holds, so that the rest is let go."""
    for name, shard in shards.items():
        if shard.untyped_storage().nbytes() > shard.nbytes:
            shards[name] = shard.clone(memory_format=torch.contiguous_format)


@final
class ShardedWeights:
    """What this rank holds of a model's weights, in the layout that is in use.

    Args:
        parameters: All of the model, in the order in which they are sent.
        layout: The first.
        rank: This one.
        dtype: Of all parameters.
        device: Where they are kept.
    """

    def __init__(
        self,
        parameters: Sequence[ParameterSpec],
        layout: ParallelLayout,
        rank: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.parameters = tuple(parameters)
        self.layout = layout
        self.rank = rank
        self.shards: Shards = {
            spec.name: torch.zeros(shard_shape(spec, layout), dtype=dtype, device=device)
            for spec in parameters
        }

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return sum(shard.nbytes for shard in self.shards.values())

    def replace(self, layout: ParallelLayout, shards: Shards) -> None:
        """Hold other shards, in another layout."""
        self.layout, self.shards = layout, shards
