"""One rank alone is an engine too; what several do together stands in the tests of their engine."""

import weakref

import pytest
import torch
from earl_dispatch import Columns
from earl_dispatch.testing import run_ranks
from earl_selector import plan_reshard
from earl_trainer.experience.prepare import score_columns
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.parallel.engine_rank import POLICY, REFERENCE, EngineRank, RankSettings
from earl_trainer.parallel.exchange import needed_bytes, pack_shards
from earl_trainer.parallel.tp_plan import list_parameters


def settings_of(model, *, memory_bytes=1 << 20, degrees=(1, 2), num_ranks=2):
    blueprint = Blueprint.of(model)
    return RankSettings(
        blueprint=blueprint,
        parameters=list_parameters(blueprint, degrees),
        degrees=degrees,
        num_ranks=num_ranks,
        stop_ids=frozenset({2}),
        memory_bytes=memory_bytes,
        kv_bytes_per_token={tp: 256 // tp for tp in degrees},
        num_threads=1,
        timeout_s=60.0,
    )


def plan_of(settings, source_tp, target_tp):
    source, target = settings.layout(source_tp), settings.layout(target_tp)
    return plan_reshard(source, target, settings.parameters)


@pytest.mark.parametrize(("source_tp", "target_tp", "share"), [(2, 1, 1.5), (1, 2, 1.0)])
def test_a_change_needs_room_for_old_and_new_shards_and_is_refused_before_it_begins(
    make_model, source_tp, target_tp, share
):
    model = make_model("llama")
    whole_bytes = sum(parameter.nbytes for parameter in model.parameters())
    plan = plan_of(settings_of(model), source_tp, target_tp)
    peak_bytes = needed_bytes(plan, 0, num_models=1)
    assert share * whole_bytes < peak_bytes < (share + 0.25) * whole_bytes
    for memory_bytes in (peak_bytes, peak_bytes - 1):
        rank = EngineRank(settings_of(model, memory_bytes=memory_bytes), 0, tp=source_tp)
        rank._hold(POLICY)
        if memory_bytes == peak_bytes:
            rank.check_switch(plan, ())
            continue
        message = f"take {peak_bytes:,} bytes .* to tp {target_tp}, more than its {memory_bytes:,}"
        with pytest.raises(ValueError, match=message):
            rank.check_switch(plan, ())
        if source_tp > target_tp:
            rank.check_switch(plan, (POLICY,))  # Where new weights follow, old ones go first.


def test_a_rank_that_nobody_connected_says_so(make_model):
    rank = EngineRank(settings_of(make_model("llama")), 0, tp=1)
    with pytest.raises(RuntimeError, match="connect this rank"):
        rank.generate([])
    rank.interrupt()


def columns_of():
    ids = torch.arange(20, dtype=torch.int32) % 39
    mask = torch.ones(20, dtype=torch.bool)
    mask[[0, 12]] = False
    return Columns(
        lengths=torch.tensor([12, 8]), per_token={"token_ids": ids, "mask": mask}, per_row={}
    )


def score_both(folder, policy, reference):
    """Score with two models at both degrees; the reference follows the switch."""
    rank_number = torch.distributed.get_rank()
    torch.distributed.destroy_process_group()  # The rank makes its own.
    settings = settings_of(policy)
    rank = EngineRank(settings, rank_number, tp=1)
    rank.connect(f"file://{folder}/store")
    scored = {}
    for role, model in ((POLICY, policy), (REFERENCE, reference)):
        parameters = dict(model.named_parameters())
        layout = settings.layout(1)
        rank.load(role, 5, pack_shards(parameters, settings.parameters, layout, rank_number))
    for tp in (1, 2):
        if tp == 2:
            plan = plan_reshard(settings.layout(1), settings.layout(2), settings.parameters)
            rank.check_switch(plan, ())
            old = [
                weakref.ref(each) for model in rank._models.values() for each in model.parameters()
            ]
            assert rank.begin_switch(plan, ()) == 0
            rank.end_switch()
            assert not any(each() is not None for each in old), "old shards take memory"
            for held in rank._weights.values():
                for shard in held.shards.values():
                    assert shard.untyped_storage().nbytes() == shard.nbytes, "parts of old shards"
        for role in (POLICY, REFERENCE):
            scored[role, tp] = rank.score(role, columns_of(), 0.7, 64)
    memory = rank.memory()
    return scored, memory.weights_bytes


@pytest.mark.slow
def test_two_models_are_scored_with_at_both_degrees(tmp_path, make_model):
    policy, reference = make_model("llama"), make_model("llama")
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.mul_(0.9)
    whole_bytes = sum(parameter.nbytes for parameter in policy.parameters())
    for scored, num_bytes in run_ranks(
        2, score_both, str(tmp_path), policy, reference, timeout_s=180.0
    ):
        for (role, tp), logprobs in scored.items():
            model = policy if role == POLICY else reference
            expected = score_columns(model, columns_of(), temperature=0.7, max_tokens=64)
            torch.testing.assert_close(logprobs, expected, atol=1e-4, rtol=1e-4), (role, tp)
        assert whole_bytes <= num_bytes < 1.1 * whole_bytes, "two models, half of each"


def fold(folder, policy, reference, renewed):
    """Come down with new weights for the policy; the reference is moved."""
    rank_number = torch.distributed.get_rank()
    torch.distributed.destroy_process_group()  # The rank makes its own.
    settings = settings_of(policy)
    specs = settings.parameters
    plan = plan_of(settings, 2, 1)
    rank = EngineRank(settings, rank_number, tp=2)
    rank.connect(f"file://{folder}/store")
    sent = {}
    for role, model in ((POLICY, policy), (REFERENCE, reference)):
        sent[role] = pack_shards(
            dict(model.named_parameters()), specs, settings.layout(2), rank_number
        )
        rank.load(role, 5, sent[role])
    before_bytes = rank.memory().received_bytes
    moved_bytes = rank.begin_switch(plan, (POLICY,))
    rank.abandon_switch()
    abandoned = rank.score(POLICY, columns_of(), 0.7, 64)
    assert rank.begin_switch(plan, (POLICY,)) == moved_bytes
    old = [weakref.ref(each) for each in rank._weights[POLICY].shards.values()]
    rank.end_switch()
    assert not any(each() is not None for each in old), "old shards take memory"
    packed = pack_shards(dict(renewed.named_parameters()), specs, settings.layout(1), rank_number)
    rank.load(POLICY, 6, packed)
    return {
        "abandoned": abandoned,
        POLICY: rank.score(POLICY, columns_of(), 0.7, 64),
        REFERENCE: rank.score(REFERENCE, columns_of(), 0.7, 64),
        "moved": moved_bytes - plan.received_bytes(rank_number),
        "received": rank.memory().received_bytes - before_bytes - 2 * moved_bytes,
        "loaded": before_bytes - sum(each.nbytes for packed in sent.values() for each in packed),
    }


@pytest.mark.slow
def test_of_a_model_whose_new_weights_follow_nothing_is_moved(tmp_path, make_model):
    policy, reference, renewed = (make_model("llama") for _ in range(3))
    with torch.no_grad():
        for scale, model in ((0.9, reference), (1.1, renewed)):
            for parameter in model.parameters():
                parameter.mul_(scale)
    whole_bytes = sum(parameter.nbytes for parameter in policy.parameters())
    models = {"abandoned": policy, POLICY: renewed, REFERENCE: reference}
    for answer in run_ranks(2, fold, str(tmp_path), policy, reference, renewed, timeout_s=180.0):
        for name, model in models.items():
            expected = score_columns(model, columns_of(), temperature=0.7, max_tokens=64)
            torch.testing.assert_close(answer[name], expected, atol=1e-4, rtol=1e-4)
        assert (answer["moved"], answer["loaded"]) == (0, 0)
        assert answer["received"] == whole_bytes, "what was loaded, and no more"
