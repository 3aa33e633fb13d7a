"""The preparation stage on ranks, as a config describes it."""

import pytest
import torch
from earl_dispatch import Columns
from earl_envs import make_opponent
from earl_selector import MemoryModel
from earl_trainer.config import RunConfig, SelectorConfig
from earl_trainer.parallel.placement import Placement
from earl_trainer.phases import RL, WARMUP, plan_phases
from earl_trainer.preparation import make_rank_preparer, make_scoring_policy
from earl_trainer.rollout.parallel_engine import ParallelEngine
from earl_trainer.rollout.policies import LanguagePolicy, ScriptedPolicy


def config_of(**selector):
    ranks = {"tp_degrees": (1, 2), "num_devices": 2, "prepare_on": "ranks"}
    return RunConfig(selector=SelectorConfig(**(ranks | selector)))


def test_the_stage_goes_back_to_the_degree_of_the_rollout_and_pays_for_it(tiny_model):
    policy = make_scoring_policy(config_of(), tiny_model, (1, 2), num_models=1, num_responses=16)
    assert policy.returns
    assert policy.num_responses == 16


def test_every_model_takes_memory_and_so_does_a_vocabulary_that_is_not_split(make_llama):
    # Eleven tokens, which two ranks do not divide.
    policies = [
        make_scoring_policy(config_of(), make_llama(), (1, 2), num_models=num) for num in (1, 2)
    ]
    one, two = (policy.memory for policy in policies)
    assert two.weights_bytes(2) == 2 * one.weights_bytes(2)
    assert not one.splits_vocabulary
    whole_bytes = sum(parameter.nbytes for parameter in make_llama().parameters())
    assert one.weights_bytes(1) == whole_bytes
    assert one.weights_bytes(2) > (whole_bytes + 11 * 16 * 4) / 2


def test_memory_for_no_pass_is_refused_in_one_line(tiny_model):
    with pytest.raises(ValueError, match=r"^selector\.prepare_on ranks: no tp of \(1, 2\) holds"):
        make_scoring_policy(config_of(memory_bytes=1000), tiny_model, (1, 2), num_models=1)


def test_warm_up_has_nothing_to_score_and_asks_nothing_of_ranks(
    tiny_model, tic_tac_toe, tiny_chat, tmp_path
):
    config = config_of(profile="none")
    policy = make_scoring_policy(config, tiny_model, (1, 2), num_models=1)
    memory = MemoryModel(
        shape=policy.memory.shape,
        device=policy.memory.device,
        bytes_per_parameter=4,
        bytes_per_kv_value=4,
        utilisation=1.0,
        reserve_bytes=0,
    )
    engine = ParallelEngine(
        tiny_model,
        Placement(num_ranks=2, degrees=(1, 2), memory=memory),
        stop_ids=tiny_chat.stop_ids,
        tp=1,
    )
    phases = plan_phases(
        config,
        {
            WARMUP: ScriptedPolicy(make_opponent("random"), game=tic_tac_toe, chat=tiny_chat),
            RL: LanguagePolicy(engine, temperature=1.0),
        },
    )
    preparer = make_rank_preparer(
        config,
        tiny_model,
        engine,
        phases[0],
        degrees=(1, 2),
        reference=None,
        folder=tmp_path,
        note=print,
    )
    columns = Columns(
        lengths=torch.tensor([2]), per_token={"token_ids": torch.zeros(2)}, per_row={}
    )
    assert preparer.prepare(columns) is columns
