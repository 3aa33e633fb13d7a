"""All policies can be put in one another's place."""

import pytest
from earl_selector import (
    MODEL_SHAPES,
    AverageContextPolicy,
    ContextReport,
    DeviceSpec,
    FixedPolicy,
    MemoryModel,
    Policy,
    SelectorPolicy,
    ThrottlePolicy,
    UnmeasuredThroughput,
)

MEMORY = MemoryModel(
    shape=MODEL_SHAPES["smollm2-135m"],
    device=DeviceSpec.cpu(400 * 2**20),
    bytes_per_parameter=2,
    bytes_per_kv_value=2,
    utilisation=1.0,
    reserve_bytes=0,
)
POLICIES = {
    "selector": SelectorPolicy(
        memory=MEMORY, degrees=(3,), num_devices=3, max_context_tokens=1000, num_responses=4
    ),
    "fixed": FixedPolicy(memory=MEMORY, tp=3, max_context_tokens=1000),
    "throttle": ThrottlePolicy(memory=MEMORY, tp=3, max_context_tokens=1000),
    "earl": AverageContextPolicy(
        memory=MEMORY,
        degrees=(3,),
        max_context_tokens=1000,
        throughput=UnmeasuredThroughput(memory=MEMORY),
        num_responses=4,
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_told_of_the_next_rollout_and_of_where_the_engine_is(name):
    policy = POLICIES[name]
    assert isinstance(policy, Policy)
    assert policy.usable_degrees == (3,)
    assert policy.fleet.capacity_tokens(3) == MEMORY.capacity_tokens(3)
    decision, state = policy.update(policy.init(), None, num_responses=8)
    assert (decision.tp, decision.previous_tp, decision.forecast_tokens) == (3, None, 8000)
    assert (decision.inputs.num_responses, decision.inputs.context_tokens) == (8, 1000)
    assert decision.inputs.growth_tokens_per_step is None
    report = ContextReport(
        step=0,
        num_responses=8,
        mean_context_tokens=50.0,
        max_context_tokens=60,
        resident_tokens=400,
    )
    decision, state = policy.update(state, report, current_tp=1)
    assert decision.previous_tp == 1
    assert (decision.inputs.num_responses, decision.inputs.context_tokens) == (8, 50)
    decision, _ = policy.update(state, None, num_responses=16)
    assert decision.forecast_tokens == 800
