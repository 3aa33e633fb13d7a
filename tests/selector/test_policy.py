import json
from dataclasses import dataclass, replace

import pytest
from earl_selector import (
    ContextReport,
    Deployment,
    DeviceSpec,
    MemoryModel,
    ModelShape,
    Policy,
    Refusal,
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


@dataclass(frozen=True)
class StepThroughput:
    """1 token/s at tp 1 and 0.8 at tp 2, each divided by 2 where it queues."""

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        rate = {1: 1.0, 2: 0.8}[tp]
        return rate if num_responses * context_tokens <= CAPACITY[tp] else rate / 2


# With 4 devices, 10 responses of 20 tokens take 50 s at tp 1 and 62.5 s at tp 2.
TWO = replace(POLICY, degrees=(1, 2), throughput=StepThroughput())


def report_of(step, resident_tokens, *, num_responses=10, max_context_tokens=50, **seconds):
    return ContextReport(
        step=step,
        num_responses=num_responses,
        mean_context_tokens=float(max_context_tokens),
        max_context_tokens=max_context_tokens,
        resident_tokens=resident_tokens,
        **seconds,
    )


def run(policy, residents):
    decision, state = policy.update(policy.init(), None)
    decisions = [decision]
    for step, resident_tokens in enumerate(residents):
        decision, state = policy.update(state, report_of(step, resident_tokens))
        decisions.append(decision)
    return decisions


def degrees(policy, residents):
    return [decision.tp for decision in run(policy, residents)]


traces = st.lists(st.integers(0, 4000), min_size=1, max_size=12)


def test_toy_capacities_equal_the_sums_done_by_hand():
    assert {tp: MEMORY.capacity_tokens(tp) for tp in (1, 2, 4)} == CAPACITY
    assert isinstance(POLICY, Policy)


def test_first_decision_is_for_one_full_context_unless_the_responses_are_known():
    decision, _ = POLICY.update(POLICY.init(), None)
    assert (decision.tp, decision.previous_tp) == (1, None)
    assert decision.forecast_tokens == 100
    assert decision.reason == "first step: fastest for 100 tokens"
    decision, _ = replace(POLICY, num_responses=10).update(POLICY.init(), None)
    assert (decision.tp, decision.forecast_tokens) == (2, 1000)


def test_degree_that_cannot_hold_one_full_context_is_never_used():
    policy = replace(POLICY, max_context_tokens=500)
    assert policy.usable_degrees == (2, 4)
    assert 1 not in degrees(policy, [10, 10, 10, 10, 10, 10])


def test_degree_rises_before_the_rollout_that_would_overflow():
    decisions = run(POLICY, [200, 300, 400])
    assert [decision.tp for decision in decisions] == [1, 1, 1, 2]
    assert decisions[-1].forecast_tokens == 500
    assert decisions[-1].reason == "grows: forecast 500 > capacity 458 at tp 1"
    assert decisions[-1].capacity_tokens == CAPACITY[2]
    assert decisions[-1].feasible == (2, 4)
    assert decisions[-1].switches


def test_degree_rises_at_once_past_degrees_that_do_not_hold_the_forecast():
    policy = replace(POLICY, max_context_tokens=400)
    assert degrees(policy, [1300]) == [1, 4]


def test_overflow_of_every_degree_queues_and_says_so():
    policy = replace(POLICY, max_context_tokens=458)
    decision = run(policy, [2796])[-1]
    assert (decision.tp, decision.queues, decision.feasible) == (4, True, ())
    decision = run(replace(policy, degrees=(4,)), [2796])[-1]
    assert decision.reason == "queues: forecast 2,796 > capacity 2,795 at tp 4"
    assert not run(policy, [2795])[-1].queues


def test_queueing_is_priced_only_where_no_degree_holds_the_forecast():
    @dataclass(frozen=True)
    class Indifferent:
        def tokens_per_s_per_device(
            self, tp: int, num_responses: int, context_tokens: int
        ) -> float:
            return 1.0 / tp

    indifferent = replace(POLICY, throughput=Indifferent())
    assert degrees(indifferent, [900, 900]) == [1, 2, 2]
    assert degrees(replace(indifferent, degrees=(1,)), [900, 900]) == [1, 1, 1]
    assert degrees(replace(indifferent, max_context_tokens=400), [2900, 2900]) == [1, 1, 1]


def test_degree_falls_once_the_expected_saving_pays_for_the_way_there_and_back():
    # At 200 tokens tp 1 saves 62.5 - 50 = 12.5 s a rollout. The way back costs two switches and
    # the next rollout of 600 tokens: 300 s queueing at tp 1 instead of 187.5 s at tp 2, so 112.5 s.
    # After n low rollouts about n more are expected: 12.5 n > 112.5 + 2 S.
    decisions = run(TWO, [600, *[200] * 12])
    assert [decision.tp for decision in decisions] == [1, *[2] * 10, *[1] * 3]
    assert decisions[11].reason == (
        "tp 1 saves 20% of a rollout, for about 10 rollouts: worth the switch from tp 2"
    )
    assert decisions[10].reason == (
        "tp 1 saves 20% of a rollout, for about 9 rollouts: not worth a switch from tp 2"
    )
    dear = degrees(replace(TWO, switch_s=12.5), [600, *[200] * 12])
    assert dear == [1, *[2] * 12, 1]


def test_alternatives_carry_what_the_rule_weighs():
    decision = run(TWO, [600, *[200] * 4])[-1]
    one, two = decision.alternatives
    assert (one.tp, one.rollout_s, one.dwell_steps, one.round_trip_s) == (1, 50.0, 4.0, 112.5)
    assert (two.tp, two.rollout_s, two.round_trip_s) == (2, 62.5, 0.0)
    assert decision.predicted_s == 62.5
    assert one.net_gain_s(two) == 12.5 * 4 - 112.5


def test_a_risk_never_seen_is_taken_at_its_worst():
    # From tp 2 at the start, ten full responses: 1,000 tokens take 500 s at tp 1, 312.5 s at tp 2.
    decision = run(replace(TWO, num_responses=10), [200])[-1]
    assert decision.tp == 2
    assert decision.alternatives[0].round_trip_s == 500.0 - 312.5


def test_foreseen_return_has_to_pay_for_the_switches_alone():
    # At 84 tokens tp 1 saves 5.25 s a rollout: to earn the worst, 187.5 s, takes 36 rollouts.
    start = replace(TWO, num_responses=10, switch_s=6.0)
    assert degrees(start, [84] * 17) == [2] * 18
    climb = [20 + 4 * step for step in range(17)]
    decisions = run(start, climb)
    assert [decision.tp for decision in decisions] == [*[2] * 16, 1, 1]
    assert decisions[16].alternatives[0].round_trip_s == 12.0
    # 80 + 4 a step reaches 458 in 95 steps.
    assert decisions[16].alternatives[0].dwell_steps == pytest.approx(95, abs=5)
    dear = replace(start, switch_s=300.0)
    assert degrees(dear, climb) == [2] * 18


def test_no_line_is_trusted_where_contexts_that_overflow_are_cut():
    start = replace(TWO, num_responses=10, switch_s=6.0, overflow_is_lost=True)
    climb = [20 + 4 * step for step in range(17)]
    assert degrees(start, climb) == [2] * 18
    assert degrees(start, [84] * 40) == [*[2] * 36, *[1] * 5]


def test_growth_that_jumps_after_all_is_trusted_once():
    start = replace(TWO, num_responses=10, switch_s=6.0)
    climb = [20 + 4 * step for step in range(17)]
    decisions = run(start, [*climb, 900, *climb])
    assert [decision.tp for decision in decisions[16:]] == [1, 1, *[2] * 18]
    # 900 tokens took 450 s at tp 1 and would have taken 281.25 s at tp 2.
    assert decisions[-1].alternatives[0].round_trip_s == 12.0 + 450.0 - 281.25


def test_spells_that_used_to_be_short_are_not_followed():
    spiky = [*[200] * 12, 600, *[200] * 2, 600, *[200] * 2, 600, *[200] * 2, 600, *[200] * 6]
    assert degrees(TWO, spiky)[14:] == [2] * (len(spiky) - 13)


def test_growth_shortens_the_expected_dwell():
    decision = run(TWO, [600, 200, 220, 240, 260])[-1]
    # 260 + 20 a step reaches 458 in 10 steps at the latest; four low rollouts promise no more.
    assert decision.alternatives[0].dwell_steps <= 4.0
    steep = run(TWO, [600, 40, 140, 240, 340])[-1]
    assert steep.alternatives[0].dwell_steps == 2.0


def test_degree_stays_where_the_spread_of_the_lengths_makes_the_smaller_one_queue():
    steady = run(TWO, [600, *[440] * 6])[-1]
    jittery = run(TWO, [600, *[420, 455] * 3, 440])[-1]
    assert steady.alternatives[0].rollout_s == 110.0
    assert jittery.alternatives[0].rollout_s > 120.0


def test_measured_times_rescale_the_predictions():
    _, state = TWO.update(TWO.init(), None)
    decision, state = TWO.update(state, report_of(0, 200, rollout_s=100.0))
    assert [each.rollout_s for each in decision.alternatives] == [100.0, 125.0]
    decision, _ = TWO.update(state, report_of(1, 200))
    assert decision.predicted_s == 100.0


def test_an_order_that_was_only_assumed_predicts_no_seconds_until_a_rollout_was_timed():
    for policy in (POLICY, replace(TWO, in_seconds=False)):
        first, state = policy.update(policy.init(), None)
        scripted, state = policy.update(state, report_of(0, 200))
        timed, _ = policy.update(state, report_of(1, 200, rollout_s=100.0))
        assert (first.predicted_s, scripted.predicted_s) == (None, None)
        assert timed.predicted_s == pytest.approx(100.0)
    assert run(TWO, [200])[-1].predicted_s == 50.0, "measured before the run"


def test_the_latest_measured_switch_replaces_the_assumed_one():
    policy = replace(TWO, switch_s=1000.0)
    _, state = policy.update(policy.init(), None)
    assumed, state = policy.update(state, report_of(0, 200))
    # The way back also costs one rollout of 200 tokens at tp 2, 12.5 s slower.
    assert assumed.alternatives[1].round_trip_s == 2012.5
    measured, _ = policy.update(state, report_of(1, 200, switch_s=3.0))
    assert measured.alternatives[1].round_trip_s == 18.5


def test_growth_is_not_mistaken_for_a_change_in_the_number_of_responses():
    _, state = POLICY.update(POLICY.init(), report_of(0, 200, num_responses=10))
    decision, _ = POLICY.update(state, report_of(1, 400, num_responses=20))
    assert decision.forecast_tokens == 400


def test_the_next_rollout_may_have_other_responses_than_the_last():
    _, state = POLICY.update(POLICY.init(), report_of(0, 400))
    more, _ = POLICY.update(state, report_of(1, 400), num_responses=15)
    assert (more.forecast_tokens, more.tp) == (600, 2)
    assert more.reason == "grows: forecast 600 > capacity 458 at tp 1"
    same, _ = POLICY.update(state, report_of(1, 400))
    assert (same.forecast_tokens, same.tp) == (400, 1)
    first, _ = POLICY.update(POLICY.init(), None, num_responses=10)
    assert first.forecast_tokens == 1000


def refuse_always(policy, residents, refused_tp):
    """Run on an engine that does not take one degree; return what was decided."""
    state, report, decided = policy.init(), None, []
    for step, resident_tokens in enumerate(residents):
        decision, state = policy.update(state, report)
        decided.append(decision)
        if decision.tp == refused_tp:
            state = state.refuse(decision.previous_tp)
        report = report_of(step, resident_tokens)
    return decided


def test_a_degree_that_the_engine_did_not_take_is_left_out_while_another_holds_the_forecast():
    wide = replace(POLICY, max_context_tokens=400)
    decided = refuse_always(wide, [600] * 20, refused_tp=2)
    assert [each.tp for each in decided] == [1, 2, *[4] * 18]
    assert decided[2].reason == "grows: forecast 600 > capacity 458 at tp 1"


def test_where_no_other_holds_the_forecast_it_is_tried_again_ever_more_seldom():
    decided = refuse_always(replace(POLICY, degrees=(1, 2)), [600] * 20, refused_tp=2)
    tried = [step for step, each in enumerate(decided) if each.tp == 2]
    assert tried == [1, 3, 7, 15]
    assert decided[2].reason == "queues: forecast 600 > capacity 458 at tp 1"
    assert decided[2].queues


def test_a_degree_that_the_engine_runs_at_is_not_refused_any_more():
    _, state = POLICY.update(replace(POLICY.init(), tp=2).refuse(1), report_of(0, 200))
    assert [each.tp for each in state.refusals] == [2]
    _, state = POLICY.update(state, report_of(1, 200), current_tp=2)
    assert state.refusals == ()
    assert SelectorState(tp=4, reports=()).refuse(2).refusals == (Refusal(tp=4, step=-1),)


def test_who_is_wanted_back_each_time_leaves_only_for_what_pays_the_way_each_time():
    # tp 1 saves 12.5 s of each rollout: for good it is worth any switch, for once two of 6 s.
    stay = replace(TWO, switch_s=7.0)
    assert degrees(replace(stay, num_responses=10), [200] * 40)[-1] == 1
    for switch_s, expected in ((7.0, 2), (6.0, 1)):
        policy = replace(TWO, switch_s=switch_s, returns=True)
        _, state = policy.update(policy.init(), None, current_tp=2)
        for step in range(40):
            decision, state = policy.update(state, report_of(step, 200), current_tp=2)
            assert decision.tp == expected


def test_nothing_measured_leaves_the_degree_and_the_state_as_they_are():
    _, state = POLICY.update(POLICY.init(), report_of(0, 1000))
    _, state = POLICY.update(state, report_of(1, 100))
    for _ in range(5):
        decision, unchanged = POLICY.update(state, None)
        assert unchanged == state
        assert decision.tp == 2


def test_resumed_state_of_other_degrees_moves_to_the_fastest():
    state = replace(POLICY.init(), tp=4)
    decision, _ = replace(POLICY, degrees=(1, 2)).update(state, report_of(0, 600))
    assert (decision.tp, decision.previous_tp) == (2, 4)
    assert decision.reason == "tp 4 is not among the usable (1, 2)"


def test_sharing_engines_hold_a_load_together():
    policy = replace(POLICY, deployment=Deployment.SHARING, max_context_tokens=200, num_responses=4)
    # Four engines of degree 1 hold 4 x 458, two of degree 2 2 x 1,237, one of degree 4 2,795.
    decision, state = policy.update(policy.init(), None)
    assert [each.capacity_tokens for each in decision.alternatives] == [1832, 2474, 2795]
    assert (decision.tp, decision.capacity_tokens, decision.feasible) == (1, 1832, (1, 2, 4))
    for step, resident_tokens in enumerate([300, 900, 1500]):
        report = report_of(step, resident_tokens, num_responses=12)
        decision, state = policy.update(state, report)
    assert decision.reason == "grows: forecast 2,100 > capacity 1,832 at tp 1"
    assert (decision.tp, decision.capacity_tokens, decision.feasible) == (2, 2474, (2, 4))
    # 1,500 + 3 x 600 tokens are more than any degree holds; contexts stay within their limit.
    assert decision.steps_to_limit == 3


def test_single_engine_uses_more_devices_at_a_higher_degree():
    # 10 responses of 20 tokens take 200 s on one device and 125 s on two.
    policy = replace(TWO, deployment=Deployment.SINGLE)
    decision = run(policy, [200])[-1]
    assert [each.rollout_s for each in decision.alternatives] == [200.0, 125.0]
    assert (decision.tp, decision.capacity_tokens) == (2, 1237)


def test_idle_devices_are_charged_in_the_comparison_and_not_in_the_prediction():
    alone = replace(TWO, deployment=Deployment.SINGLE, charges_ranks=True)
    decision = run(alone, [200])[-1]
    # 200 s of one device and 125 s of two, of the four that there are.
    assert [each.rollout_s for each in decision.alternatives] == [200.0, 125.0]
    assert [each.cost_s for each in decision.alternatives] == [50.0, 62.5]
    assert (decision.tp, decision.predicted_s) == (1, 200.0)


def test_time_of_a_single_engine_is_foretold_across_a_switch():
    policy = replace(TWO, deployment=Deployment.SINGLE, charges_ranks=True)
    decision, state = policy.update(policy.init(), None)
    assert decision.tp == 1
    decision, state = policy.update(state, report_of(0, 200, rollout_s=400.0))
    assert (decision.tp, decision.predicted_s) == (1, 400.0)  # half as fast as was thought
    decision, state = policy.update(state, report_of(1, 450, rollout_s=900.0))
    assert decision.tp == 2
    # 700 tokens at 0.8 token/s on each of two devices, which are half as fast as was thought.
    assert decision.forecast_tokens == 700
    assert decision.predicted_s == pytest.approx(2 * 700 / (2 * 0.8), rel=0.02)


@settings(max_examples=20, deadline=None)
@given(traces)
def test_charged_degrees_compare_as_tokens_per_device_do(residents):
    alone = replace(TWO, deployment=Deployment.SINGLE, charges_ranks=True)
    assert degrees(alone, residents) == degrees(TWO, residents)


def test_steps_to_limit_is_the_earlier_of_context_limit_and_largest_capacity():
    state = POLICY.init()
    _, state = POLICY.update(state, report_of(0, 1000, max_context_tokens=60))
    context_first, _ = POLICY.update(state, report_of(1, 1100, max_context_tokens=70))
    assert context_first.steps_to_limit == 3  # 70 + 3 x 10 = 100
    capacity_first, _ = POLICY.update(state, report_of(1, 2000, max_context_tokens=61))
    assert capacity_first.steps_to_limit == 1  # 2000 + 1 x 1000 > 2795
    neither, _ = POLICY.update(state, report_of(1, 900, max_context_tokens=60))
    assert neither.steps_to_limit is None


@settings(max_examples=20, deadline=None)
@given(traces)
def test_chosen_degree_holds_the_forecast_wherever_one_does(residents):
    policy = replace(POLICY, max_context_tokens=400)
    for decision in run(policy, residents):
        holding = tuple(tp for tp in (1, 2, 4) if CAPACITY[tp] >= decision.forecast_tokens)
        assert decision.feasible == holding
        assert decision.tp in (holding or (1, 2, 4))
        assert decision.queues == (not holding)
        assert decision.capacity_tokens == CAPACITY[decision.tp]


@settings(max_examples=20, deadline=None)
@given(traces)
def test_forecast_is_never_below_what_was_observed_last(residents):
    decisions = run(POLICY, residents)[1:]
    for resident_tokens, decision in zip(residents, decisions, strict=True):
        assert decision.forecast_tokens >= resident_tokens


@settings(max_examples=20, deadline=None)
@given(traces)
def test_no_rollout_is_let_overflow_where_a_larger_degree_is_predicted_faster(residents):
    for decision in run(replace(POLICY, max_context_tokens=400, switch_s=1e6), residents):
        if decision.forecast_tokens > decision.capacity_tokens:
            seconds = {each.tp: each.rollout_s for each in decision.alternatives}
            larger = [seconds[tp] for tp in seconds if tp > decision.tp]
            assert seconds[decision.tp] <= min(larger, default=1e9)


@settings(max_examples=20, deadline=None)
@given(traces)
def test_update_depends_on_its_arguments_alone_and_survives_json(residents):
    state = POLICY.init()
    for step, resident_tokens in enumerate(residents):
        report = report_of(step, resident_tokens, rollout_s=2.0, switch_s=1.0)
        stored = json.dumps(state.to_dict())
        decision, next_state = POLICY.update(state, report)
        assert json.dumps(state.to_dict()) == stored
        restored = SelectorState.from_dict(json.loads(stored))
        assert POLICY.update(restored, report) == (decision, next_state)
        state = next_state


def test_long_runs_are_remembered_only_in_part():
    state = TWO.init()
    for step in range(200):
        _, state = TWO.update(state, report_of(step, 200))
    assert [report.step for report in state.reports] == list(range(72, 200))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"degrees": ()}, r"distinct and at least one, got \(\)"),
        ({"switch_s": -1.0}, r"switch_s must be finite and >= 0, got -1\.0"),
        ({"switch_s": float("nan")}, "switch_s must be finite and >= 0, got nan"),
        ({"num_responses": 0}, "num_responses must be >= 1, got 0"),
        ({"window": 1}, "window must be >= 2, as growth needs two reports, got 1"),
    ],
)
def test_impossible_policies_are_refused_with_the_rule_and_the_value(change, message):
    with pytest.raises(ValueError, match=message):
        replace(POLICY, **change)


def test_reports_out_of_order_are_refused():
    _, state = POLICY.update(POLICY.init(), report_of(5, 10))
    with pytest.raises(ValueError, match="rising steps, got step 5 after step 5"):
        POLICY.update(state, report_of(5, 10))
