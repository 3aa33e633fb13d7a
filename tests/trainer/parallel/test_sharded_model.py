"""A model in shards on real ranks, against the same model whole."""

import weakref

import pytest
import torch
import torch.distributed as dist
from earl_dispatch.testing import run_ranks
from earl_selector import ParallelLayout
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.parallel.sharded_model import build_sharded, drop_shards, put_shards
from earl_trainer.parallel.shards import take_shard
from earl_trainer.parallel.tp_plan import list_parameters

DEGREES = (1, 2, 4)


def compute_logits(models):
    """Let this rank's engine compute with every model at every degree."""
    torch.set_num_threads(1)
    return {
        (kind, tp): compute(model, tp, dist.get_rank(), dist.get_world_size())
        for kind, model in models.items()
        for tp in DEGREES
    }


def compute(model, tp, rank, size):
    blueprint = Blueprint.of(model)
    layout = ParallelLayout(num_ranks=size, tp=tp, degrees=DEGREES)
    groups = [dist.new_group(sorted(layout.ranks_of(engine))) for engine in range(layout.dp)]
    group = groups[layout.engine_of(rank)] if tp > 1 else None
    specs = list_parameters(blueprint, DEGREES)
    built = build_sharded(blueprint, DEGREES, layout, rank, group, torch.device("cpu"))
    whole = dict(model.named_parameters())
    shards = {
        spec.name: take_shard(whole[spec.name].detach(), spec, layout, rank).clone()
        for spec in specs
    }
    put_shards(built, shards)
    # Engines of one layout compute different rows.
    ids = (torch.arange(24).view(2, 12) + layout.engine_of(rank)) % 39
    with torch.no_grad():
        logits = built(ids).logits
    return ids, logits, sum(shard.nbytes for shard in shards.values())


@pytest.mark.slow
def test_engines_of_any_degree_compute_what_the_whole_model_does(all_models):
    for answer in run_ranks(4, compute_logits, all_models, timeout_s=180.0):
        for (kind, tp), (ids, logits, num_bytes) in answer.items():
            model = all_models[kind]
            with torch.no_grad():
                torch.testing.assert_close(logits, model(ids).logits, atol=2e-5, rtol=1e-4)
            whole_bytes = sum(parameter.nbytes for parameter in model.parameters())
            assert whole_bytes / tp <= num_bytes <= whole_bytes
            specs = list_parameters(Blueprint.of(model), DEGREES)
            assert num_bytes == sum(
                spec.num_bytes // (tp if spec.sharded_dim is not None else 1) for spec in specs
            )


def test_a_model_lets_go_of_its_shards_and_takes_others(make_model):
    model = make_model("tied")
    layout = ParallelLayout(num_ranks=1, tp=1)
    built = build_sharded(Blueprint.of(model), (1,), layout, 0, None, torch.device("cpu"))
    shards = {name: each.detach().clone() for name, each in model.named_parameters()}
    put_shards(built, shards)
    held = [weakref.ref(parameter) for parameter in built.parameters()]
    ids = torch.arange(12)[None]
    with torch.no_grad():
        torch.testing.assert_close(built(ids).logits, model(ids).logits)
        drop_shards(built)
        del shards
        assert not any(each() is not None for each in held)
        put_shards(built, dict(model.named_parameters()))
        torch.testing.assert_close(built(ids).logits, model(ids).logits)
