import json
from dataclasses import replace

import pytest
from earl_selector import (
    ContextReport,
    DeviceSpec,
    MemoryModel,
    ModelShape,
    SelectorPolicy,
    SelectorState,
)
from hypothesis import given, settings
from hypothesis import strategies as st

SHAPE = ModelShape(
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
)
MEMORY = MemoryModel(
    shape=SHAPE,
    device=DeviceSpec.cpu(100_000),
    bytes_per_parameter=2,
    bytes_per_kv_value=2,
    utilisation=1.0,
    reserve_bytes=0,
)
# By hand: a layer has 2 x 32 x (32 + 16) + 3 x 32 x 64 + 64 = 9,280 weights, the embedding 2,048
# and the last norm 32; one rank of one stores 20,640 x 2 bytes = 41,280, of two 20,800, of four
# 10,560. A token takes 2 x 2 x 4 x 4 x 2 = 128 bytes, halved at each doubling up to 4 KV heads.
CAPACITY = {1: 458, 2: 1237, 4: 2795}
POLICY = SelectorPolicy(memory=MEMORY, degrees=(1, 2, 4), num_devices=4, max_context_tokens=100)


def report_of(step, resident_tokens, max_context_tokens=50):
    return ContextReport(
        step=step,
        num_responses=10,
        mean_context_tokens=float(max_context_tokens),
        max_context_tokens=max_context_tokens,
        resident_tokens=resident_tokens,
    )


def run(policy, residents):
    decision, state = policy.update(policy.init(), None)
    decisions = [decision]
    for step, resident_tokens in enumerate(residents):
        decision, state = policy.update(state, report_of(step, resident_tokens))
        decisions.append(decision)
    return decisions


traces = st.lists(st.integers(0, 4000), min_size=1, max_size=12)


def test_toy_capacities_equal_the_sums_done_by_hand():
    assert {tp: MEMORY.capacity_tokens(tp) for tp in (1, 2, 4)} == CAPACITY


def test_first_decision_is_the_smallest_degree_that_holds_one_full_context():
    decision, _ = POLICY.update(POLICY.init(), None)
    assert (decision.tp, decision.previous_tp) == (1, None)
    assert decision.forecast_tokens == 100
    assert decision.reason == "first step: smallest that holds 100 tokens"


def test_degree_that_cannot_hold_one_full_context_is_never_used():
    policy = replace(POLICY, max_context_tokens=500)
    assert policy.usable_degrees == (2, 4)
    assert [decision.tp for decision in run(policy, [10, 10, 10, 10, 10, 10])] == [2] * 7


def test_degree_rises_before_the_rollout_that_would_overflow():
    decisions = run(POLICY, [200, 300, 400])
    assert [decision.tp for decision in decisions] == [1, 1, 1, 2]
    assert decisions[-1].forecast_tokens == 500
    assert decisions[-1].reason == "grows: forecast 500 > capacity 458 at tp 1"
    assert decisions[-1].capacity_tokens == CAPACITY[2]
    assert decisions[-1].feasible == (2, 4)
    assert decisions[-1].switches


def test_degree_rises_at_once_past_degrees_that_do_not_hold_the_forecast():
    assert [decision.tp for decision in run(POLICY, [1300])] == [1, 4]


def test_overflow_of_every_degree_takes_the_largest_and_says_that_it_queues():
    decision = run(POLICY, [2796])[-1]
    assert (decision.tp, decision.queues, decision.feasible) == (4, True, ())
    assert decision.reason == "queues: forecast 2,796 > capacity 2,795 at tp 4, the largest"
    assert not run(POLICY, [2795])[-1].queues


def test_degree_falls_after_patience_low_updates_without_growth():
    # 0.8 x 458 = 366.4 tokens is the bound below which tp 1 counts as roomy.
    decisions = run(POLICY, [1000, 366, 366, 366, 366])
    assert [decision.tp for decision in decisions] == [1, 2, 2, 2, 1, 1]
    assert decisions[4].reason == "shrinks: forecast 366 is well under capacity 458 at tp 1"


def test_degree_stays_while_the_forecast_lies_between_margin_and_capacity():
    assert {decision.tp for decision in run(POLICY, [1000] + [367] * 10)[1:]} == {2}


def test_degree_stays_while_low_tokens_still_grow():
    # The jump from 10 to 300 forecasts 590; after that one token a step is growth all the same.
    slow = [decision.tp for decision in run(POLICY, [10, 300, *range(301, 310)])]
    assert slow == [1, 1, *[2] * 10]
    still = [decision.tp for decision in run(POLICY, [10, 300, *[301] * 9])]
    assert still == [1, 1, *[2] * 5, *[1] * 5]


def test_one_high_update_starts_the_patience_again():
    decisions = run(POLICY, [1000, 300, 300, 900, 300, 300, 300, 300])
    assert [decision.tp for decision in decisions] == [1, 2, 2, 2, 2, 2, 2, 1, 1]


def test_falling_degree_lands_where_all_low_updates_fit():
    # From tp 4: 900 fits tp 2 with its margin (989) and not tp 1, so tp 1 has to wait.
    decisions = run(POLICY, [2000, 900, 100, 100, 100, 100, 100])
    assert [decision.tp for decision in decisions] == [1, 4, 4, 4, 2, 2, 2, 1]


def test_nothing_measured_leaves_the_degree_and_the_patience_as_they_are():
    _, state = POLICY.update(POLICY.init(), report_of(0, 1000))
    _, state = POLICY.update(state, report_of(1, 100))
    for _ in range(5):
        decision, unchanged = POLICY.update(state, None)
        assert unchanged == state
        assert decision.tp == 2


def test_only_degree_is_named_as_such():
    decisions = run(replace(POLICY, degrees=(2,)), [700, 5000])
    assert [decision.reason for decision in decisions] == [
        "only degree: holds 100 of 1,237 tokens",
        "only degree: holds 700 of 1,237 tokens",
        "queues: forecast 9,300 > capacity 1,237 at tp 2, the largest",
    ]


def test_resumed_state_of_other_degrees_moves_to_the_smallest_that_holds():
    state = replace(POLICY.init(), tp=4)
    decision, _ = replace(POLICY, degrees=(1, 2)).update(state, report_of(0, 600))
    assert (decision.tp, decision.previous_tp) == (2, 4)
    assert decision.reason == "tp 4 is not among the usable (1, 2)"


def test_steps_to_limit_is_the_earlier_of_context_limit_and_largest_capacity():
    state = POLICY.init()
    _, state = POLICY.update(state, report_of(0, 1000, max_context_tokens=60))
    context_first, _ = POLICY.update(state, report_of(1, 1100, max_context_tokens=70))
    assert context_first.steps_to_limit == 3  # 70 + 3 x 10 = 100
    capacity_first, _ = POLICY.update(state, report_of(1, 2000, max_context_tokens=61))
    assert capacity_first.steps_to_limit == 1  # 2000 + 1 x 1000 > 2795
    neither, _ = POLICY.update(state, report_of(1, 900, max_context_tokens=60))
    assert neither.steps_to_limit is None


@settings(max_examples=60)
@given(traces)
def test_chosen_degree_holds_the_forecast_wherever_one_does(residents):
    for decision in run(POLICY, residents):
        holding = tuple(tp for tp in (1, 2, 4) if CAPACITY[tp] >= decision.forecast_tokens)
        assert decision.feasible == holding
        assert decision.tp in (holding or (4,))
        assert decision.queues == (not holding)
        assert decision.capacity_tokens == CAPACITY[decision.tp]


@settings(max_examples=60)
@given(traces)
def test_forecast_is_never_below_what_was_observed_last(residents):
    decisions = run(POLICY, residents)[1:]
    for resident_tokens, decision in zip(residents, decisions, strict=True):
        assert decision.forecast_tokens >= resident_tokens


@settings(max_examples=60)
@given(st.lists(st.sampled_from([1, 2, 300]) | st.integers(1, 400), min_size=1, max_size=12))
def test_degree_never_falls_while_resident_tokens_grow(increments):
    residents = [sum(increments[: end + 1]) for end in range(len(increments))]
    degrees = [decision.tp for decision in run(POLICY, residents)]
    assert degrees == sorted(degrees)


@settings(max_examples=60)
@given(traces, st.integers(1, 5))
def test_degree_rests_for_patience_updates_before_it_falls(residents, patience):
    decisions = run(replace(POLICY, patience=patience), residents)
    switches = [index for index, decision in enumerate(decisions) if decision.switches]
    for index in switches:
        if decisions[index].tp < decisions[index - 1].tp:
            before = decisions[max(0, index - patience) : index]
            assert {decision.tp for decision in before} == {decisions[index - 1].tp}
            low = decisions[index - patience + 1 : index + 1]
            bound = 0.8 * CAPACITY[decisions[index].tp]
            assert len(low) == patience
            assert all(decision.forecast_tokens <= bound for decision in low)


@settings(max_examples=60)
@given(traces)
def test_update_depends_on_its_arguments_alone_and_survives_json(residents):
    state = POLICY.init()
    for step, resident_tokens in enumerate(residents):
        report = report_of(step, resident_tokens)
        stored = json.dumps(state.to_dict())
        decision, next_state = POLICY.update(state, report)
        assert json.dumps(state.to_dict()) == stored
        restored = SelectorState.from_dict(json.loads(stored))
        assert POLICY.update(restored, report) == (decision, next_state)
        state = next_state
    assert len(state.reports) == min(len(residents), POLICY.window)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"degrees": ()}, r"distinct and at least one, got \(\)"),
        ({"degrees": (1, 1)}, r"distinct and at least one, got \(1, 1\)"),
        (
            {"degrees": (1, 3)},
            r"tp 3 does not divide the model's 8 attention heads \(valid: 1, 2, 4, 8\)",
        ),
        ({"degrees": (8,)}, "tp 8 needs 8 devices, more than the 4 there are"),
        ({"max_context_tokens": 0}, "max_context_tokens must be >= 1, got 0"),
        ({"margin": 0.0}, r"margin must be in \(0, 1\], got 0.0"),
        ({"patience": 0}, "patience must be >= 1, got 0"),
        ({"window": 1}, "window must be >= 2, as growth needs two reports, got 1"),
    ],
)
def test_impossible_policies_are_refused_with_the_rule_and_the_value(change, message):
    with pytest.raises(ValueError, match=message):
        replace(POLICY, **change)


def test_context_that_fits_no_degree_is_refused_with_the_memory_that_would_do():
    # Four ranks: 10,560 bytes of weights and 3,000 tokens of 32 bytes.
    with pytest.raises(ValueError, match=r"3,000 tokens on cpu with 100,000 bytes") as refused:
        replace(POLICY, max_context_tokens=3000)
    assert "106,560 bytes (1 MiB) per device at tp 4" in str(refused.value)
    enough = replace(MEMORY, device=DeviceSpec.cpu(106_560))
    assert replace(POLICY, memory=enough, max_context_tokens=3000).usable_degrees == (4,)


def test_reports_out_of_order_are_refused():
    _, state = POLICY.update(POLICY.init(), report_of(5, 10))
    with pytest.raises(ValueError, match="rising steps, got step 5 after step 5"):
        POLICY.update(state, report_of(5, 10))
