"""A causal language model of which this rank holds one shard, at one of several degrees."""

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist
from earl_selector import ParallelLayout
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh
from transformers import PreTrainedModel
from transformers.distributed.tensor_parallel import apply_tensor_parallelism

from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.parallel.tp_plan import EMBEDDING_ROWWISE, HEAD, find_layer_styles


def build_sharded(
    blueprint: Blueprint,
    degrees: Sequence[int],
    layout: ParallelLayout,
    rank: int,
    group: ProcessGroup | None,
    device: torch.device,
) -> PreTrainedModel:
    """Build the model as a rank runs it, without weights; `put_shards` gives it those.

    Args:
        blueprint: The model.
        degrees: All at which it is to run, as they decide what is split.
        layout: Of the ranks, with the degree.
        rank: This one.
        group: Of the ranks of its engine; None at tp 1.
        device: Where it computes.
    """
    model = blueprint.build(device)
    if group is None:
        return model
    styles = find_layer_styles(model, degrees)
    embeddings = [layer for layer, style in styles.items() if style == EMBEDDING_ROWWISE]
    others = {layer: style for layer, style in styles.items() if layer not in embeddings}
    apply_tensor_parallelism(model, DeviceMesh.from_group(group, device.type), others)
    start, _ = layout.interval(model.config.vocab_size, rank) if embeddings else (0, 0)
    for layer in embeddings:
        _look_up_own_part(nn.Module.get_submodule(model, layer), start, group)
    order = layout.ranks_of(layout.engine_of(rank))
    if HEAD in styles:
        _restore_order(
            nn.Module.get_submodule(model, HEAD), [sorted(order).index(each) for each in order]
        )
    return model


def _look_up_own_part(embedding: nn.Module, start: int, group: ProcessGroup) -> None:
    """Let a rank embed the tokens of its part of the vocabulary, and add up over the ranks."""

    def forward(ids: Tensor) -> Tensor:
        weight = embedding.get_parameter("weight")
        own = ids - start
        elsewhere = (own < 0) | (own >= len(weight))
        found = nn.functional.embedding(own.masked_fill(elsewhere, 0), weight)
        found = found.masked_fill(elsewhere[..., None], 0.0)
        dist.all_reduce(found, group=group)
        return found

    embedding.forward = forward


def _restore_order(head: nn.Module, places: list[int]) -> None:
    """Put the parts of gathered logits, which come in the order of ranks, in that of shards."""
    if places == sorted(places):
        return
    gather: Callable[..., Tensor] = head.forward

    def forward(*args: object, **kwargs: object) -> Tensor:
        parts = gather(*args, **kwargs).chunk(len(places), dim=-1)
        return torch.cat([parts[place] for place in places], dim=-1)

    head.forward = forward


def drop_shards(model: PreTrainedModel) -> None:
    """Let go of what a model computes with; `put_shards` gives it something else."""
    put_shards(model, {name: torch.empty(0, device="meta") for name, _ in model.named_parameters()})


def put_shards(model: PreTrainedModel, shards: Mapping[str, Tensor]) -> None:
    """Let a built model compute with these tensors, without copying them."""
    for name, shard in shards.items():
        owner, _, own_name = name.rpartition(".")
        parameter = nn.Parameter(shard, requires_grad=False)
        setattr(nn.Module.get_submodule(model, owner), own_name, parameter)
    if model.config.tie_word_embeddings:
        head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
        assert head is not None
        head.weight = embedding.get_parameter("weight")
