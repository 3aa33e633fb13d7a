from dataclasses import dataclass, replace

import pytest
from earl_selector import (
    DEVICE_SPECS,
    MODEL_SHAPES,
    AverageContextPolicy,
    ContextReport,
    Deployment,
    FixedPolicy,
    MemoryModel,
    Policy,
    ThrottlePolicy,
)

MEMORY = MemoryModel(
    shape=MODEL_SHAPES["qwen2.5-72b"],
    device=DEVICE_SPECS["h100-80gb"],
    bytes_per_parameter=2,
    bytes_per_kv_value=2,
    utilisation=0.9,
    reserve_bytes=3 * 10**9,
)
CAPACITY_4 = 452_803


@dataclass(frozen=True)
class CrossesAt10K:
    """Degree 8 is the faster one from 32 x 10,000 tokens on; nothing runs beyond 20,000."""

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        if context_tokens > 20_000:
            return 0.0
        return 1.0 if tp == 4 or num_responses * context_tokens >= 32 * 10_000 else 0.5


@dataclass(frozen=True)
class Faster(CrossesAt10K):
    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        rate = CrossesAt10K.tokens_per_s_per_device(self, tp, num_responses, context_tokens)
        return rate * (2.0 if tp == 8 and num_responses * context_tokens >= 32 * 10_000 else 1.0)


def report_of(step, mean_context_tokens, num_responses=32):
    return ContextReport(
        step=step,
        num_responses=num_responses,
        mean_context_tokens=float(mean_context_tokens),
        max_context_tokens=mean_context_tokens,
        resident_tokens=num_responses * mean_context_tokens,
    )


def run(policy, contexts, **load):
    decision, state = policy.update(policy.init(), None)
    decisions = [decision]
    for step, context_tokens in enumerate(contexts):
        decision, state = policy.update(state, report_of(step, context_tokens, **load))
        decisions.append(decision)
    return decisions


def test_fixed_never_moves_and_says_when_it_queues():
    policy = FixedPolicy(memory=MEMORY, tp=4, max_context_tokens=32_768)
    assert isinstance(policy, Policy)
    decisions = run(policy, [1000, 20_000, 30_000])
    assert {decision.tp for decision in decisions} == {4}
    assert [decision.queues for decision in decisions] == [False, False, True, True]
    assert decisions[-1].capacity_tokens == CAPACITY_4


def test_throttle_holds_the_responses_to_what_fits_the_forecast():
    policy = ThrottlePolicy(memory=MEMORY, tp=4, max_context_tokens=32_768)
    decisions = run(policy, [8192, 20_000])
    assert decisions[0].max_responses == CAPACITY_4 // 32_768
    assert decisions[1].max_responses == CAPACITY_4 // 8192
    # The forecast is 20,000 plus the growth of 11,808.
    assert decisions[2].max_responses == CAPACITY_4 // 31_808
    assert {decision.tp for decision in decisions} == {4}


def test_engines_that_share_a_load_are_throttled_one_by_one():
    policy = ThrottlePolicy(
        memory=MEMORY,
        tp=4,
        max_context_tokens=32_768,
        num_devices=8,
        deployment=Deployment.SHARING,
    )
    decision = run(policy, [30_000])[-1]
    assert decision.capacity_tokens == 2 * CAPACITY_4
    # Each of the two engines holds 15, although 2 x 452,803 tokens are 30.2 contexts.
    assert decision.max_responses == 2 * (CAPACITY_4 // 30_000) == 30
    fixed = FixedPolicy(
        memory=MEMORY,
        tp=4,
        max_context_tokens=32_768,
        num_devices=8,
        deployment=Deployment.SHARING,
    )
    assert [each.queues for each in run(fixed, [28_000, 29_000])] == [False, False, True]


@dataclass(frozen=True)
class NearlyLinear:
    """Degree 8 loses a fifth per device."""

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        return {4: 1.0, 8: 0.8}[tp]


def test_averages_take_the_speed_of_engines_as_they_are_deployed():
    policy = average(Faster())
    assert [each.tp for each in run(policy, [9000])] == [4, 8]
    # Eight responses for each of four engines, or sixteen for each of two: too few to cross.
    shared = replace(policy, num_devices=16, deployment=Deployment.SHARING)
    assert [each.tp for each in run(shared, [9000])] == [4, 4]
    # Alone, an engine of degree 8 has twice as many devices.
    policy = average(NearlyLinear())
    assert run(policy, [9000])[-1].tp == 4
    assert run(replace(policy, deployment=Deployment.SINGLE), [9000])[-1].tp == 8


def average(throughput, *, max_context_tokens=16_384):
    return AverageContextPolicy(
        memory=MEMORY,
        degrees=(4, 8),
        max_context_tokens=max_context_tokens,
        throughput=throughput,
        num_responses=32,
    )


def test_averages_follow_their_range_at_once_and_back():
    contexts = [1000, 4096, 8192, 8193, 9000, 4096, 16_000]
    chosen = [decision.tp for decision in run(average(Faster()), contexts)]
    # The range above 8,192 is measured at 16,384, where degree 8 is the faster one.
    assert chosen == [4, 4, 4, 4, 8, 8, 4, 8]


def test_averages_ignore_how_many_responses_there_are():
    few = [decision.tp for decision in run(average(Faster()), [9000], num_responses=1)]
    assert few == [4, 8]


def test_averages_keep_their_degree_where_nothing_new_was_measured():
    policy = average(Faster())
    _, state = policy.update(policy.init(), report_of(0, 9000))
    assert policy.update(state, None)[0].tp == 8


def test_range_that_no_degree_can_run_is_refused():
    policy = average(CrossesAt10K(), max_context_tokens=32_768)
    with pytest.raises(ValueError, match=r"no tp of \(4, 8\) holds one context of 32768 tokens"):
        policy.update(policy.init(), report_of(0, 30_000))
