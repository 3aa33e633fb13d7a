"""What a run's config says about the loads of its engines."""

import pytest
from earl_selector import Deployment, DeviceSpec, MemoryModel, ModelShape, SelectorPolicy
from earl_trainer.profiling.setup import make_setup


def selector_for(model, *, degrees, deployment):
    memory = MemoryModel(
        shape=ModelShape.from_config(model.config.to_dict()),
        device=DeviceSpec.cpu(10**6),
        bytes_per_parameter=4,
        bytes_per_kv_value=4,
        utilisation=1.0,
        reserve_bytes=0,
    )
    return SelectorPolicy(
        memory=memory,
        degrees=degrees,
        num_devices=4,
        max_context_tokens=64,
        deployment=deployment,
    )


@pytest.fixture
def load_of(small_config, tiny_model, timed_engine):
    def load(deployment, *overrides):
        config = small_config({"rollout": {"max_context_tokens": 64}}, *overrides)
        selector = selector_for(tiny_model, degrees=(1, 2, 4), deployment=deployment)
        setup = make_setup(
            config,
            model=tiny_model,
            engine=timed_engine(lambda *_: 1.0),
            stop_ids=frozenset({4}),
            selector=selector,
        )
        capacity = selector.memory.capacity_tokens(2)
        assert setup.load.degrees[1].capacity_tokens == capacity
        assert setup.prior.tokens_per_s_per_device(2, 1, capacity) > 0.0
        assert setup.prior.tokens_per_s_per_device(2, 1, capacity + 1) == 0.0
        return setup

    return load


def test_one_engine_has_all_episodes_of_the_larger_phase(load_of):
    def responses(*overrides):
        setup = load_of(Deployment.SINGLE, *overrides)
        return [(each.num_responses, each.num_engines) for each in setup.load.degrees]

    assert responses() == [(16, 1)] * 3
    assert responses({"warmup": {"num_episodes": 20}}) == [(20, 1)] * 3
    assert responses({"warmup": {"num_episodes": 20, "num_steps": 0}}) == [(16, 1)] * 3
    assert responses({"rollout_workers": 3}) == [(6, 1)] * 3


def test_engines_that_share_have_their_part_each(load_of):
    load = load_of(Deployment.SHARING, {"warmup": {"num_episodes": 18}}).load
    assert [each.num_responses for each in load.degrees] == [5, 9, 18]
    assert load.num_engines == {1: 4, 2: 2, 4: 1}


def test_replies_are_timed_as_long_as_the_runs_or_a_few_tokens(load_of):
    def num_tokens(most):
        setup = load_of(Deployment.SINGLE, {"rollout": {"max_reply_tokens": most}})
        assert setup.load.max_reply_tokens == most
        return setup.meter.num_new_tokens

    assert num_tokens(4) == 4
    assert num_tokens(60) == 16


def test_the_layout_of_the_ranks_is_part_of_the_subject(load_of):
    def engine(**fields):
        return load_of(Deployment.SINGLE, {"selector": fields}).subject.engine

    assert engine().startswith("transformers, 1 ranks sharing, earl-trainer ")
    assert engine(num_devices=4, deployment="single").startswith("transformers, 4 ranks single, ")


def test_prompts_come_from_the_models_own_vocabulary(load_of, tiny_model):
    meter = load_of(Deployment.SINGLE).meter
    assert meter.vocab_size == tiny_model.config.vocab_size
    assert meter.stop_ids == {4}


def test_what_was_not_measured_gains_from_more_responses_at_once(load_of):
    prior = load_of(Deployment.SINGLE).prior
    one, many = (prior.tokens_per_s_per_device(1, responses, 10) for responses in (1, 8))
    assert many > 1.5 * one
