from dataclasses import replace
from math import inf

import pytest
from earl_selector import Alternative, ContextReport, Decision, Outcome

DECISION = Decision(
    tp=4,
    previous_tp=None,
    reason="any",
    forecast_tokens=1,
    capacity_tokens=200,
    feasible=(4,),
    steps_to_limit=None,
)


def alternative(tp, rollout_s, dwell_steps=1.0, round_trip_s=0.0):
    return Alternative(
        tp=tp,
        capacity_tokens=200,
        rollout_s=rollout_s,
        dwell_steps=dwell_steps,
        round_trip_s=round_trip_s,
    )


@pytest.mark.parametrize(
    ("previous_tp", "tp", "switches"), [(None, 4, False), (4, 4, False), (4, 8, True)]
)
def test_only_a_change_of_degree_is_a_switch(previous_tp, tp, switches):
    decision = replace(DECISION, tp=tp, previous_tp=previous_tp)
    assert decision.switches == switches
    assert not decision.queues


def test_prediction_is_that_of_the_chosen_degree():
    assert DECISION.predicted_s is None
    weighed = replace(DECISION, alternatives=(alternative(2, 30.0), alternative(4, 20.0)))
    assert weighed.predicted_s == 20.0
    assert replace(weighed, in_seconds=False).predicted_s is None


def test_net_gain_is_what_is_saved_while_it_lasts_less_the_round_trip():
    assert alternative(2, 20.0, 5.0, 12.0).net_gain_s(alternative(4, 30.0)) == 38.0


@pytest.mark.parametrize(("resident_tokens", "queued"), [(200, False), (201, True)])
def test_what_happened_is_kept_with_the_decision(resident_tokens, queued):
    report = ContextReport(
        step=0,
        num_responses=2,
        mean_context_tokens=1.0,
        max_context_tokens=200,
        resident_tokens=resident_tokens,
        rollout_s=7.0,
    )
    observed = DECISION.observe(report)
    expected = Outcome(resident_tokens=resident_tokens, queued=queued, rollout_s=7.0)
    assert observed == replace(DECISION, outcome=expected)


@pytest.mark.parametrize(
    ("steps", "words"), [(0, "have reached"), (3, "in 3 steps"), (10, "in 10")]
)
def test_limit_is_announced_before_it_bites(steps, words):
    assert words in replace(DECISION, steps_to_limit=steps).limit_notice


@pytest.mark.parametrize("steps", [None, 11])
def test_limit_that_is_far_or_out_of_sight_is_not_announced(steps):
    assert replace(DECISION, steps_to_limit=steps).limit_notice is None


def test_decision_becomes_plain_values_of_six_digits():
    weighed = replace(DECISION, alternatives=(alternative(4, 1 / 3, inf),))
    plain = weighed.to_dict()
    (weights,) = plain["alternatives"]
    assert (weights["rollout_s"], weights["dwell_steps"]) == (0.333333, None)
    assert (plain["feasible"], plain["inputs"], plain["outcome"]) == ([4], None, None)


def test_the_cost_of_a_degree_is_its_time_for_the_devices_in_use():
    half = replace(alternative(2, 30.0, 4.0), share_in_use=0.5)
    assert half.cost_s == 15.0
    assert half.net_gain_s(alternative(4, 20.0)) == 20.0
