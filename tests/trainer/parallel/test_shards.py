"""What a rank holds."""

import torch
from earl_selector import ParallelLayout
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.parallel.shards import ShardedWeights, own_memory, shard_shape, take_shard
from earl_trainer.parallel.tp_plan import list_parameters


def test_the_shards_of_an_engine_make_up_the_whole(make_model):
    model = make_model("biased")
    layout = ParallelLayout(num_ranks=8, tp=4, degrees=(1, 2, 4))
    whole = dict(model.named_parameters())
    for spec in list_parameters(Blueprint.of(model), (1, 2, 4)):
        shards = [take_shard(whole[spec.name], spec, layout, rank) for rank in layout.ranks_of(1)]
        assert {tuple(shard.shape) for shard in shards} == {tuple(shard_shape(spec, layout))}
        if spec.sharded_dim is None:
            assert all(torch.equal(shard, whole[spec.name]) for shard in shards)
        else:
            assert torch.equal(torch.cat(shards, dim=spec.sharded_dim), whole[spec.name])


def test_a_part_of_something_larger_is_copied_and_a_whole_is_not():
    whole = torch.arange(12.0).view(3, 4)
    shards = {"part": whole.narrow(1, 2, 2), "whole": whole}
    own_memory(shards)
    assert shards["part"].tolist() == [[2.0, 3.0], [6.0, 7.0], [10.0, 11.0]]
    assert shards["part"].is_contiguous()
    assert shards["part"].untyped_storage().nbytes() == shards["part"].nbytes
    assert shards["whole"] is whole


def test_weights_are_held_in_the_layout_in_use(make_model):
    specs = list_parameters(Blueprint.of(make_model("llama")), (1, 2))
    one, two = (ParallelLayout(num_ranks=2, tp=tp, degrees=(1, 2)) for tp in (1, 2))
    weights = ShardedWeights(specs, one, 1, dtype=torch.float32, device=torch.device("cpu"))
    assert weights.num_bytes == sum(spec.num_bytes for spec in specs)
    halves = ShardedWeights(specs, two, 1, dtype=torch.float32, device=torch.device("cpu"))
    weights.replace(two, halves.shards)
    assert weights.layout == two
    assert weights.num_bytes == halves.num_bytes
    assert weights.shards["lm_head.weight"].shape == (20, 32)
