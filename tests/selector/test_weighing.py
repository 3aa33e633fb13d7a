from dataclasses import replace

from earl_selector.decision import Alternative
from earl_selector.weighing import Weighing


def alternative(tp, rollout_s, *, dwell_steps=1.0, round_trip_s=0.0):
    return Alternative(
        tp=tp,
        capacity_tokens=100 * tp,
        rollout_s=rollout_s,
        dwell_steps=dwell_steps,
        round_trip_s=round_trip_s,
    )


def weigh(current_tp, forecast_tokens, *alternatives):
    return Weighing(
        current_tp=current_tp, forecast_tokens=forecast_tokens, alternatives=alternatives
    )


def test_first_decision_takes_the_fastest_and_of_equals_the_smallest():
    both = (alternative(1, 5.0), alternative(2, 4.0))
    assert weigh(None, 50, *both).choose() == (2, "first step: fastest for 50 tokens")
    assert weigh(None, 50, alternative(1, 4.0), both[1]).choose()[0] == 1


def test_equally_fast_degree_is_no_reason_to_switch():
    weighing = weigh(2, 50, alternative(1, 4.0), alternative(2, 4.0))
    assert weighing.choose() == (2, "holds 50 of 200 tokens")


def test_overflow_rises_at_once_whatever_a_switch_costs():
    weighing = weigh(1, 101, alternative(1, 9.0), alternative(2, 8.9, round_trip_s=1e9))
    assert weighing.choose() == (2, "grows: forecast 101 > capacity 100 at tp 1")
    held = replace(weighing, forecast_tokens=100)
    assert held.choose() == (
        1,
        "tp 2 saves 1% of a rollout, for about 1 rollouts: not worth a switch from tp 1",
    )


def test_a_degree_that_holds_the_forecast_is_taken_even_where_queueing_is_the_faster():
    slower = alternative(2, 9.1)
    assert weigh(1, 101, alternative(1, 9.0), slower).choose()[0] == 2
    assert weigh(2, 101, alternative(1, 9.0), slower).choose() == (2, "holds 101 of 200 tokens")
    assert weigh(None, 101, alternative(1, 9.0), slower).choose()[0] == 2
    assert weigh(2, 100, alternative(1, 9.0), slower).choose()[0] == 1


def test_where_no_degree_holds_the_forecast_the_faster_queue_counts():
    queueing = weigh(1, 201, alternative(1, 9.0), alternative(2, 9.1))
    assert queueing.choose() == (1, "queues: forecast 201 > capacity 100 at tp 1")
    better = weigh(1, 201, alternative(1, 9.0), alternative(2, 8.9, round_trip_s=1e9))
    assert better.choose() == (2, "grows: forecast 201 > capacity 100 at tp 1")


def test_saving_has_to_exceed_the_round_trip():
    def choose(dwell_steps):
        low = alternative(1, 4.0, dwell_steps=dwell_steps, round_trip_s=10.0)
        return weigh(2, 50, low, alternative(2, 5.0)).choose()[0]

    assert (choose(10.0), choose(10.5)) == (2, 1)


def test_safe_step_is_taken_before_the_larger_risky_one():
    weighing = weigh(
        4,
        50,
        alternative(1, 4.0, dwell_steps=3.0, round_trip_s=100.0),
        alternative(2, 6.0, dwell_steps=3.0, round_trip_s=1.0),
        alternative(4, 8.0),
    )
    assert weighing.choose()[0] == 2


def test_who_comes_back_each_time_pays_the_round_trip_each_time():
    there = alternative(2, 7.0, dwell_steps=100.0, round_trip_s=3.0)
    weighing = weigh(1, 50, alternative(1, 10.0), there)
    assert weighing.choose()[0] == 2, "who stays pays it once"
    assert weighing.choose_for_once() == (1, "holds 50 of 100 tokens")
    cheaper = weigh(1, 50, alternative(1, 10.0), replace(there, round_trip_s=2.0))
    assert cheaper.choose_for_once() == (2, "tp 2 saves 10%, the way there and back included")


def test_who_comes_back_each_time_is_not_driven_away_by_what_does_not_fit_at_once():
    overflowing = weigh(1, 101, alternative(1, 9.0), alternative(2, 8.9, round_trip_s=1.0))
    assert overflowing.choose()[0] == 2
    assert overflowing.choose_for_once()[0] == 1


def test_degree_that_may_not_be_used_is_left():
    weighing = weigh(8, 50, alternative(1, 5.0), alternative(2, 4.0))
    assert weighing.choose() == (2, "tp 8 is not among the usable (1, 2)")
