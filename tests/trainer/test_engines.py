"""From a config to what generates and what chooses its degree."""

import copy
import sys
from dataclasses import replace

import pytest
from earl_selector import (
    AverageContextPolicy,
    ContextReport,
    Deployment,
    DeviceSpec,
    FixedPolicy,
    ModelShape,
    ScoringMemory,
    SelectorPolicy,
    ThrottlePolicy,
    UnmeasuredThroughput,
)
from earl_trainer.algorithms.config import AlgorithmConfig
from earl_trainer.config import RolloutConfig, RunConfig, SelectorConfig
from earl_trainer.engines import (
    go_by_profile,
    judge_speed,
    make_engine,
    make_memory_model,
    make_selector,
    make_vllm_settings,
)
from earl_trainer.learner.config import WarmupConfig
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.parallel.tp_plan import list_parameters
from earl_trainer.profiling.choice import ChosenProfile
from earl_trainer.rollout.transformers_engine import TransformersEngine
from transformers import LlamaForCausalLM


def config_of(*, overflow="queue", engine="transformers", **selector):
    return RunConfig(
        rollout=RolloutConfig(overflow=overflow, engine=engine),
        selector=SelectorConfig(**selector),
    )


def engine_of(config, model, chat, *, tp=None, plays=True):
    selector = make_selector(config, model)
    return make_engine(config, model, chat, selector, tp=tp, plays=plays, note=print)


def test_the_selector_knows_how_ranks_are_deployed(tiny_model):
    sharing = make_selector(config_of(tp_degrees=(1, 2), num_devices=2), tiny_model)
    single = make_selector(
        config_of(tp_degrees=(1, 2), num_devices=2, deployment="single"), tiny_model
    )
    assert sharing.deployment is Deployment.SHARING
    assert sharing.fleet.capacity_tokens(1) == 2 * sharing.memory.capacity_tokens(1)
    assert single.deployment is Deployment.SINGLE
    assert (single.charges_ranks, sharing.charges_ranks) == (True, False)
    assert single.fleet.capacity_tokens(1) == single.memory.capacity_tokens(1)
    assert sharing.num_responses == 128, "of the warm-up, which comes first"
    without = RunConfig(warmup=WarmupConfig(num_steps=0), rollout_workers=2)
    assert make_selector(without, tiny_model).num_responses == 128


def test_what_is_cut_counts_next_to_nothing(tiny_model):
    queueing, cutting = config_of(), config_of(overflow="cut")
    assert not make_selector(queueing, tiny_model).overflow_is_lost
    assert make_selector(cutting, tiny_model).overflow_is_lost
    memory = make_memory_model(queueing, tiny_model)
    speed = UnmeasuredThroughput(memory=memory)
    assert judge_speed(queueing, memory, speed) is speed
    assert judge_speed(queueing, memory, None) is None
    too_many = memory.capacity_tokens(1) // 100 + 1
    for measured in (speed, None):
        judged = judge_speed(cutting, memory, measured)
        fits = judged.tokens_per_s_per_device(1, 10, 100)
        assert fits == speed.tokens_per_s_per_device(1, 10, 100)
        assert judged.tokens_per_s_per_device(1, too_many, 100) < 1e-4 * fits


def test_one_rank_generates_in_this_process_and_so_does_who_does_not_play(tiny_model, tiny_chat):
    alone = engine_of(config_of(), tiny_model, tiny_chat)
    assert isinstance(alone, TransformersEngine)
    assert alone.capacity_tokens == make_selector(config_of(), tiny_model).memory.capacity_tokens(1)
    two = config_of(tp_degrees=(1, 2), num_devices=2)
    assert isinstance(engine_of(two, tiny_model, tiny_chat, plays=False), TransformersEngine)


def test_ranks_begin_at_the_degree_that_is_gone_on_with(tiny_model, tiny_chat):
    two = config_of(tp_degrees=(1, 2), num_devices=2)
    assert engine_of(two, tiny_model, tiny_chat).tp == 1
    assert engine_of(two, tiny_model, tiny_chat, tp=2).tp == 2
    assert engine_of(two, tiny_model, tiny_chat, tp=4).tp == 1, "which is no degree any more"


def test_a_model_that_ranks_cannot_split_is_refused(tiny_model, tiny_chat):
    with pytest.raises(ValueError, match="tp 3 does not divide the model's 4 attention heads"):
        engine_of(config_of(tp_degrees=(3,), num_devices=3), tiny_model, tiny_chat)


def test_ranks_that_cannot_hold_a_reference_too_are_refused_at_once(tiny_model, tiny_chat):
    scoring = ScoringMemory(
        shape=ModelShape.from_config(tiny_model.config.to_dict()),
        device=DeviceSpec.cpu(1),
        bytes_per_parameter=4,
        utilisation=1.0,
        splits_vocabulary=False,
    )
    enough = scoring.required_memory_bytes(2, 256)
    config = config_of(tp_degrees=(2,), num_devices=2, prepare_on="ranks", memory_bytes=enough)
    assert engine_of(config, tiny_model, tiny_chat).tp == 2
    with_reference = replace(config, algorithm=AlgorithmConfig(kl_coefficient=0.1))
    with pytest.raises(ValueError, match=r"selector.prepare_on ranks: no tp of \(2,\) holds one"):
        engine_of(with_reference, tiny_model, tiny_chat)


@pytest.mark.parametrize("vocab_size", [24, 25])
def test_the_memory_of_weights_is_what_ranks_hold(vocab_size, tiny_model):
    model_config = copy.deepcopy(tiny_model.config)
    model_config.vocab_size = vocab_size
    model = LlamaForCausalLM(model_config)
    memory = make_memory_model(config_of(tp_degrees=(1, 2), num_devices=2), model)
    assert memory.splits_vocabulary == (vocab_size == 24)
    parameters = list_parameters(Blueprint.of(model), (1, 2))
    for tp in (1, 2):
        held_bytes = sum(
            spec.num_bytes // (1 if spec.sharded_dim is None else tp) for spec in parameters
        )
        assert memory.weights_bytes(tp) == held_bytes
    assert make_memory_model(config_of(engine="vllm", tp_degrees=(1, 2)), model).splits_vocabulary


def test_an_assumed_order_of_speed_is_none_in_seconds(tiny_model):
    selector = make_selector(config_of(overflow="cut"), tiny_model)
    decision, state = selector.update(selector.init(), None)
    assert decision.predicted_s is None
    timed = ContextReport(
        step=0,
        num_responses=128,
        mean_context_tokens=50.0,
        max_context_tokens=50,
        resident_tokens=6400,
        rollout_s=2.0,
    )
    assert selector.update(state, timed)[0].predicted_s == pytest.approx(2.0)


def test_a_context_that_fits_the_memory_but_not_in_whole_blocks_of_vllm_is_refused(
    tiny_model, tiny_chat
):
    enough = make_memory_model(RunConfig(), tiny_model).required_memory_bytes(1, 256 + 31)
    config = config_of(engine="vllm", memory_bytes=enough)
    with pytest.raises(ValueError, match="blocks hold a context of 224 tokens at tp 1"):
        engine_of(config, tiny_model, tiny_chat)


def test_where_vllm_generates_ahead_matches_are_played_by_the_learners_own_process(
    tiny_model, tiny_chat
):
    ahead = replace(config_of(engine="vllm"), max_staleness=2)
    engine = engine_of(ahead, tiny_model, tiny_chat)
    assert isinstance(engine, TransformersEngine)


def test_where_vllm_generates_ahead_it_is_refused_before_its_processes_are_there(
    tiny_model, tiny_chat, monkeypatch
):
    enough = make_memory_model(RunConfig(), tiny_model).required_memory_bytes(1, 256 + 31)
    small = replace(config_of(engine="vllm", memory_bytes=enough), max_staleness=2)
    with pytest.raises(ValueError, match="blocks hold a context of 224 tokens at tp 1"):
        engine_of(small, tiny_model, tiny_chat)
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ValueError, match="not installed"):
        engine_of(replace(config_of(engine="vllm"), max_staleness=2), tiny_model, tiny_chat)


def test_vllm_is_started_with_the_runs_limits(tiny_model):
    config = config_of(engine="vllm", switch_timeout_s=7.0)
    settings = make_vllm_settings(config, tiny_model, stop_ids=frozenset({3}), tp=1, num_threads=5)
    assert settings.stop_ids == frozenset({3})
    assert settings.num_threads == 5
    assert settings.max_context_tokens == config.rollout.max_context_tokens
    assert settings.timeouts.call_s == 7.0
    assert settings.timeouts.generate_s == config.dispatch.timeout_s


def test_a_reference_on_the_ranks_leaves_less_for_contexts(tiny_model):
    def capacity(kl_coefficient, prepare_on):
        config = RunConfig(
            algorithm=AlgorithmConfig(kl_coefficient=kl_coefficient),
            selector=SelectorConfig(tp_degrees=(1, 2), num_devices=2, prepare_on=prepare_on),
        )
        return make_memory_model(config, tiny_model).capacity_tokens(1)

    weights_bytes = sum(parameter.nbytes for parameter in tiny_model.parameters())
    per_token = make_memory_model(RunConfig(), tiny_model).kv_bytes_per_token(1)
    assert capacity(0.0, "ranks") == capacity(0.1, "learner")
    lost = capacity(0.1, "learner") - capacity(0.1, "ranks")
    assert abs(lost - weights_bytes / per_token) <= 1


@pytest.mark.parametrize(
    ("name", "kind", "degrees"),
    [
        ("selector", SelectorPolicy, (1, 2)),
        ("earl", AverageContextPolicy, (1, 2)),
        ("fixed", FixedPolicy, (2,)),
        ("throttle", ThrottlePolicy, (2,)),
    ],
)
def test_the_policy_is_the_one_that_was_named(name, kind, degrees, tiny_model):
    config = config_of(policy=name, tp_degrees=degrees, num_devices=2)
    policy = make_selector(config, tiny_model)
    assert isinstance(policy, kind)
    assert (policy.usable_degrees, policy.fleet.num_devices) == (degrees, 2)
    assert policy.fleet.deployment is Deployment.SHARING
    assert policy.update(policy.init(), None, num_responses=3)[0].tp in degrees
    tight = replace(config, selector=replace(config.selector, memory_bytes=1000))
    with pytest.raises(ValueError, match=r"^selector: no tp of .* holds one context of 256 tokens"):
        make_selector(tight, tiny_model)


def test_a_profile_is_taken_by_whoever_goes_by_speed(tiny_model):
    speed = UnmeasuredThroughput(memory=make_memory_model(RunConfig(), tiny_model))
    profile = ChosenProfile(throughput=speed, switch_s=3.0)

    def informed(name, degrees, given=profile):
        config = config_of(policy=name, tp_degrees=degrees, num_devices=2, deployment="single")
        return go_by_profile(make_selector(config, tiny_model), config, given)

    selector = informed("selector", (1, 2))
    assert selector.throughput is speed
    assert (selector.in_seconds, selector.switch_s) == (True, 3.0)
    assert informed("earl", (1, 2)).throughput is speed
    assert informed("earl", (1, 2), ChosenProfile()).throughput is not None
    assert informed("earl", (1, 2)).deployment is Deployment.REPLICAS
    fixed = informed("fixed", (2,))
    assert isinstance(fixed, FixedPolicy)
