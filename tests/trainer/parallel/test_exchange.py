"""Re-sharding on real ranks."""

import itertools

import numpy as np
import pytest
import torch
import torch.distributed as dist
from earl_dispatch.testing import run_ranks
from earl_selector import ParallelLayout, ParameterSpec, plan_reshard
from earl_trainer.parallel.exchange import (
    explain_blocked,
    needed_bytes,
    pack_shards,
    reshard,
    unpack_shards,
)
from earl_trainer.parallel.shards import own_memory, shard_shape, take_shard

SPECS = (
    ParameterSpec(name="columns", shape=(24, 5), element_bytes=4, sharded_dim=0),
    ParameterSpec(name="rows", shape=(3, 24), element_bytes=4, sharded_dim=1),
    ParameterSpec(name="bias", shape=(24,), element_bytes=4, sharded_dim=0),
    ParameterSpec(name="norm", shape=(7,), element_bytes=4, sharded_dim=None),
)


def make_whole(dtype=torch.float32):
    rng = np.random.default_rng(3)
    return {
        spec.name: torch.from_numpy(rng.standard_normal(spec.shape)).to(dtype) for spec in SPECS
    }


def layout_of(tp, degrees, num_ranks):
    return ParallelLayout(num_ranks=num_ranks, tp=tp, degrees=degrees)


def take_all(whole, layout, rank):
    return {spec.name: take_shard(whole[spec.name], spec, layout, rank).clone() for spec in SPECS}


WALKS = (
    ((1, 2, 4), (1, 2, 4, 2, 1, 4, 1)),
    ((2, 4), (4, 2, 4)),
    ((4, 1), (1, 4, 1)),
)
"""Degrees of the layouts, and the path from one to the next."""


def walk():
    """Go from degree to degree; return what was received at each, and what differs anywhere."""
    rank, size, whole = dist.get_rank(), dist.get_world_size(), make_whole()
    received, wrong = [], []
    for degrees, path in WALKS:
        shards = take_all(whole, layout_of(path[0], degrees, size), rank)
        for source_tp, target_tp in itertools.pairwise(path):
            source, target = (layout_of(tp, degrees, size) for tp in (source_tp, target_tp))
            plan, old = plan_reshard(source, target, SPECS), shards
            shards, num_bytes = reshard(plan, old, rank)
            if target_tp > source_tp:
                # All of it is part of what there is.
                old_ends = {name: shard.untyped_storage().data_ptr() for name, shard in old.items()}
                wrong += [
                    (degrees, target_tp, f"{name} is a copy")
                    for name, shard in shards.items()
                    if shard.untyped_storage().data_ptr() != old_ends[name]
                ]
            own_memory(shards)
            received.append(num_bytes)
            expected = take_all(whole, target, rank)
            wrong += [
                (degrees, target_tp, name)
                for name in expected
                if not torch.equal(shards[name], expected[name])
            ]
    return received, wrong


def test_there_and_back_is_the_identity_and_moves_what_the_plan_says():
    answers = run_ranks(4, walk)
    assert [wrong for _, wrong in answers] == [[]] * 4
    steps = [(degrees, *step) for degrees, path in WALKS for step in itertools.pairwise(path)]
    for place, (degrees, source_tp, target_tp) in enumerate(steps):
        plan = plan_reshard(
            layout_of(source_tp, degrees, 4), layout_of(target_tp, degrees, 4), SPECS
        )
        received = [each[place] for each, _ in answers]
        assert received == [plan.received_bytes(rank) for rank in range(4)]
        assert sum(received) == plan.bytes_lower_bound
        if target_tp > source_tp:
            assert sum(received) == 0


def plan_of(source_tp, target_tp, num_ranks=2):
    degrees = (source_tp, target_tp)
    source, target = (layout_of(tp, degrees, num_ranks) for tp in degrees)
    return plan_reshard(source, target, SPECS)


def test_what_a_change_needs_is_old_and_new_shards_and_one_parameter_on_its_way():
    split_bytes, whole_bytes = 4 * (24 * 5 + 3 * 24 + 24), 4 * 7
    # Down: a half is held and a whole is made; of the largest one half comes and one goes.
    down = split_bytes // 2 + split_bytes + whole_bytes + 4 * 24 * 5
    assert needed_bytes(plan_of(2, 1), 0, num_models=1) == down
    # Models go one after the other, and all have their old and new shards at the end.
    assert needed_bytes(plan_of(2, 1), 1, num_models=2) == 2 * down - 4 * 24 * 5
    # Up: the new shard is a part of the old one until it is copied, parameter by parameter.
    up = split_bytes + whole_bytes + 4 * 24 * 5 // 2
    assert needed_bytes(plan_of(1, 2), 0, num_models=1) == up


def test_a_model_whose_new_weights_follow_takes_the_larger_of_its_shards():
    split_bytes, whole_bytes = 4 * (24 * 5 + 3 * 24 + 24), 4 * 7
    for degrees in ((2, 1), (1, 2)):
        plan = plan_of(*degrees)
        alone = needed_bytes(plan, 0, num_models=0, num_awaited=1)
        passing = 4 * 24 * 5 // (1 if degrees == (2, 1) else 2)
        assert alone == split_bytes + whole_bytes + passing
        beside = needed_bytes(plan, 0, num_models=1, num_awaited=1)
        assert beside == needed_bytes(plan, 0, num_models=1) + split_bytes + whole_bytes


def test_changes_that_a_budget_does_not_hold_are_named_with_their_bytes():
    layouts = [layout_of(tp, (1, 2), 2) for tp in (1, 2)]
    down_bytes, up_bytes = (
        needed_bytes(plan_of(*pair), 0, num_models=1) for pair in ((2, 1), (1, 2))
    )

    def explain(memory_bytes, num_models=1):
        return explain_blocked(layouts, SPECS, memory_bytes=memory_bytes, num_models=num_models)

    assert explain(down_bytes) == ""
    assert explain(down_bytes - 1) == (
        f"done only along with new weights, as a rank has {down_bytes - 1:,} bytes: a change from "
        f"tp 2 to tp 1 takes {down_bytes:,} bytes"
    )
    assert explain(down_bytes, num_models=2).count("tp 2 to tp 1") == 1
    assert "from tp 1 to tp 2" in explain(up_bytes - 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tp", [1, 2, 4])
def test_what_is_packed_for_a_rank_is_its_shard(tp, dtype):
    whole, layout = make_whole(dtype), layout_of(tp, (1, 2, 4), 4)
    for rank in range(4):
        packed = pack_shards(whole, SPECS, layout, rank)
        for content in packed:
            content.flags.writeable = False  # As it comes through shared memory.
        shards = {spec.name: torch.zeros(shard_shape(spec, layout), dtype=dtype) for spec in SPECS}
        unpack_shards(packed, SPECS, shards)
        for name, shard in take_all(whole, layout, rank).items():
            assert torch.equal(shards[name], shard)
        split = sum(spec.num_bytes for spec in SPECS if spec.sharded_dim is not None)
        size = sum(content.nbytes for content in packed)
        assert size == (split // tp + 28) * dtype.itemsize // 4
