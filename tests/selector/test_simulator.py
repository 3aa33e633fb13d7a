from dataclasses import dataclass, replace
from math import inf

import pytest
from earl_selector import (
    Deployment,
    DeviceSpec,
    FixedPolicy,
    MemoryModel,
    ModelShape,
    SelectorPolicy,
    SimulatedCluster,
    ThrottlePolicy,
    replay,
)
from earl_selector.traces import Load

# The toy of test_policy.py, whose capacities are computed there by hand.
CAPACITY = {1: 458, 2: 1237, 4: 2795}
MEMORY = MemoryModel(
    shape=ModelShape(
        name="toy",
        num_layers=2,
        hidden_size=32,
        intermediate_size=64,
        num_heads=8,
        num_kv_heads=4,
        head_dim=4,
        vocab_size=64,
        tie_embeddings=True,
        qkv_bias=False,
    ),
    device=DeviceSpec.cpu(100_000),
    bytes_per_parameter=2,
    bytes_per_kv_value=2,
    utilisation=1.0,
    reserve_bytes=0,
)


@dataclass(frozen=True)
class Halving:
    """Token/s per device: 1 at tp 1 and 0.8 at tp 2, halved where a load queues."""

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        if context_tokens > CAPACITY[tp]:
            return 0.0
        rate = {1: 1.0, 2: 0.8}[tp]
        return rate if num_responses * context_tokens <= CAPACITY[tp] else rate / 2


CLUSTER = SimulatedCluster(
    memory=MEMORY, throughput=Halving(), degrees=(1, 2), num_devices=4, switch_s=5.0
)


def loads_of(*contexts, num_responses=10):
    return [
        Load(step=step, num_responses=num_responses, context_tokens=context_tokens)
        for step, context_tokens in enumerate(contexts)
    ]


def fixed(tp):
    return FixedPolicy(memory=MEMORY, tp=tp, max_context_tokens=100)


def selector(**options):
    return SelectorPolicy(
        memory=MEMORY,
        degrees=(1, 2),
        num_devices=4,
        max_context_tokens=100,
        throughput=Halving(),
        switch_s=5.0,
        **options,
    )


def test_fixed_degree_is_charged_its_rollouts_and_its_queue():
    result = replay(fixed(1), loads_of(20, 60), CLUSTER)
    assert [step.rollout_s for step in result.steps] == [200 / 4, 600 / 2]
    assert result.total_s == 350.0
    assert result.num_switches == 0
    assert result.waiting_s == pytest.approx(300 * (1 - 458 / 600))


def test_switch_is_charged_and_the_unforeseen_spike_queues():
    result = replay(selector(), loads_of(20, 60, 60), CLUSTER)
    assert [step.decision.tp for step in result.steps] == [1, 1, 2]
    assert result.total_s == 50.0 + 300.0 + 5.0 + 600 / 3.2
    assert result.num_switches == 1
    assert result.num_out_of_memory == 0


def test_decisions_carry_what_came_of_them():
    spike = replay(selector(), loads_of(20, 60), CLUSTER).steps[1].decision
    assert spike.forecast_tokens == 200
    assert spike.predicted_s == 50.0
    assert spike.outcome is not None
    assert spike.outcome.queued
    assert spike.outcome.rollout_s == 300.0


def test_context_that_does_not_fit_is_lost_and_never_counts_as_fast():
    loads = loads_of(20, 500, 20)
    result = replay(fixed(1), loads, CLUSTER)
    assert [step.out_of_memory for step in result.steps] == [False, True, False]
    assert result.num_out_of_memory == 1
    assert result.total_s == inf
    assert CLUSTER.find_best_fixed_s(loads) == replay(fixed(2), loads, CLUSTER).total_s


def test_throttled_responses_run_one_after_another():
    policy = ThrottlePolicy(memory=MEMORY, tp=1, max_context_tokens=100)
    result = replay(policy, loads_of(60, 60), CLUSTER)
    # 458 tokens hold 4 responses of 100 at first and 7 of 60 then; neither queues at tp 1.
    assert [step.decision.max_responses for step in result.steps] == [4, 7]
    assert [step.rollout_s for step in result.steps] == [150.0, 150.0]
    assert [step.waiting_s for step in result.steps] == pytest.approx([90.0, 45.0])


def test_a_cluster_deploys_its_engines_as_it_is_told():
    # 10 responses of 60 tokens: alone at degree 1 they queue; of four engines the fullest has 3.
    (load,) = loads_of(60)
    single = replace(CLUSTER, deployment=Deployment.SINGLE)
    sharing = replace(CLUSTER, deployment=Deployment.SHARING)
    assert single.rollout_s(load, 1) == 600 / 0.5
    assert single.rollout_s(load, 2) == 600 / (2 * 0.8)
    assert sharing.rollout_s(load, 1) == 180 / 1.0
    assert sharing.rollout_s(load, 2) == 300 / (2 * 0.8)


def test_optimum_foresees_the_spike_and_regret_is_measured_against_it():
    loads = loads_of(20, 60, 60)
    optimum = CLUSTER.find_optimum(loads)
    assert optimum.degrees == (1, 2, 2)
    assert optimum.total_s == 50.0 + 5.0 + 2 * 600 / 3.2
    result = replay(selector(), loads, CLUSTER)
    assert result.regret(optimum) == pytest.approx(result.total_s / 430.0 - 1.0)
    assert CLUSTER.find_best_fixed_s(loads) == 200 / 3.2 + 2 * 600 / 3.2
