"""A table that grows point by point, goes on where it stopped, and ends in time."""

from dataclasses import replace

import pytest
from earl_selector import ProfilePoint
from earl_trainer.profiling.measure import is_finished, measure_profile
from earl_trainer.types import RunFailedError

ONE_ENGINE = {1: 1, 2: 1}


def measure(meter, table, *, num_engines=ONE_ENGINE, keep=lambda table: None, **fields):
    return measure_profile(meter, table, num_engines=num_engines, keep=keep, **fields)


def rates_of(table):
    return {point.key: point.tokens_per_s_per_device for point in table.points}


def test_every_point_is_measured_per_device_and_kept_at_once(timed_engine, make_meter, make_table):
    engine = timed_engine(lambda tp, responses: 100.0 * responses * tp**0.5)
    kept = []
    table = measure(make_meter(engine), make_table(), keep=kept.append)

    assert rates_of(table) == pytest.approx({
        (tp, responses, context): 100.0 * responses * tp**-0.5
        for tp in (1, 2)
        for responses in (2, 4)
        for context in (32, 64)
    })
    assert table.switch_s == pytest.approx(2.0)
    assert [len(each.points) for each in kept] == [1, 2, 3, 4, 5, 6, 7, 8, 8]
    assert kept[-1] == table
    assert is_finished(table)
    # What it held is forgotten, the weights are the same ones.
    assert engine.loads == [3]


def test_engines_side_by_side_get_a_points_responses_each(timed_engine, make_meter, make_table):
    engine = timed_engine(lambda tp, responses: 100.0 * responses)
    table = measure(make_meter(engine), make_table(), num_engines={1: 4, 2: 2})

    # At tp 1, 8 or 16 responses on four engines of one device.
    assert {len(batch) for batch in engine.batches} == {1, 4, 8, 16}
    assert rates_of(table)[1, 4, 32] == pytest.approx(1600.0 / 4)
    assert rates_of(table)[2, 4, 32] == pytest.approx(800.0 / 4)


def test_measuring_goes_on_with_what_is_missing(timed_engine, make_meter, make_table):
    class InterruptedError(Exception):
        pass

    def keep(table):
        nonlocal kept
        kept = table
        if len(table.points) == 5:
            raise InterruptedError

    kept = make_table()
    speed = lambda tp, responses: 100.0 * responses  # noqa: E731
    with pytest.raises(InterruptedError):
        measure(make_meter(timed_engine(speed)), kept, keep=keep)
    assert len(kept.points) == 5

    engine = timed_engine(speed)
    whole = measure(make_meter(engine), kept)
    assert whole.points[:5] == kept.points
    at_once = measure(make_meter(timed_engine(speed)), make_table())
    assert rates_of(whole) == pytest.approx(rates_of(at_once))
    # Three points of one untimed and three timed replies; three times two replies for the switch.
    assert len(engine.batches) == 3 * 4 + 5
    # Then there is nothing left to ask the engine for.
    idle = timed_engine(speed)
    assert measure(make_meter(idle), whole) is whole
    assert idle.batches == idle.degrees == idle.loads == []


def test_one_degree_has_no_switch_to_time(timed_engine, make_meter, make_table):
    table = measure(make_meter(timed_engine(lambda *_: 1.0)), make_table(degrees=(1,)))
    assert table.switch_s is None
    assert is_finished(table)


def test_a_load_that_cannot_be_run_is_a_point_without_speed(timed_engine, make_meter, make_table):
    engine = timed_engine(lambda *_: 10.0, capacity_tokens=130)
    rates = rates_of(measure(make_meter(engine), make_table()))
    assert {key for key, rate in rates.items() if rate == 0.0} == {(1, 4, 64), (2, 4, 64)}


def budgeted(timed_engine, make_meter, make_table, *, budget_s, degrees=(1, 2), slow_tp=0):
    """Measure 9 points a degree, each of about as many seconds as its load has tokens."""
    engine = timed_engine(lambda tp, responses: 0.01 if tp == slow_tp else 1e9, prefill_s=1.0)
    start_s = engine.clock()
    table = measure(
        make_meter(engine, shared_prompt=False),
        make_table(degrees=degrees, num_responses=(1, 2, 4), context_tokens=(50, 100, 200)),
        budget_s=budget_s,
    )
    loads = [[row * column for each, row, column in rates_of(table) if each == tp]
             for tp in degrees]  # fmt: skip
    return loads, engine.clock() - start_s, table


def test_a_budget_is_shared_among_degrees_most_responses_first(
    timed_engine, make_meter, make_table
):
    tools = timed_engine, make_meter, make_table
    every, _, _ = budgeted(*tools, budget_s=1e9)
    assert every == [[50, 200, 400, 800, 100, 200, 400, 100, 200]] * 2
    some, took_s, table = budgeted(*tools, budget_s=900.0)
    # Reading a prompt of 35 tokens takes as many seconds, and of 85: after 35 + 4 x 35 of its 450,
    # the first degree expects 280 for the next point and leaves it out; the second has 483 left.
    assert some == [[50, 200, 100, 200], [50, 200, 400]]
    assert took_s < 1000.0
    assert table.switch_s == pytest.approx(2.0)


def test_what_one_degree_leaves_of_a_budget_the_next_one_has(timed_engine, make_meter, make_table):
    tools = timed_engine, make_meter, make_table
    (alone,), _, _ = budgeted(*tools, budget_s=3000.0, degrees=(1,))
    (_, second), _, _ = budgeted(*tools, budget_s=3000.0)
    assert len(second) < len(alone) == 9
    # The first point takes so long that there is time for no other.
    (first, second), _, _ = budgeted(*tools, budget_s=3500.0, slow_tp=1)
    assert (len(first), len(second)) == (1, 8)


def test_without_any_time_every_degree_has_its_smallest_point(timed_engine, make_meter, make_table):
    loads, _, table = budgeted(timed_engine, make_meter, make_table, budget_s=0.0)
    assert loads == [[50], [50]]
    assert table.switch_s is not None


def test_a_degree_that_the_engine_does_not_reach_ends_it(timed_engine, make_meter, make_table):
    meter = make_meter(timed_engine(lambda *_: 1.0, stuck=True))
    with pytest.raises(RunFailedError, match=r"^nothing can be measured at tp 2: it is stuck$"):
        measure(meter, make_table())


def test_a_switch_that_is_refused_leaves_its_time_unknown(timed_engine, make_meter, make_table):
    kept = []
    meter = make_meter(timed_engine(lambda *_: 1.0, never_down=True))
    table = measure_profile(meter, make_table(), num_engines={1: 1, 2: 1}, keep=kept.append)
    assert not table.missing()
    assert table.switch_s is None
    assert kept[-1] == table


def test_a_table_without_its_switch_is_not_finished(make_table):
    table = make_table(num_responses=(2,), context_tokens=(32,))
    for tp in (1, 2):
        table = table.add(
            ProfilePoint(tp=tp, num_responses=2, context_tokens=32, tokens_per_s_per_device=1.0)
        )
    assert not table.missing()
    assert not is_finished(table)
    assert is_finished(replace(table, switch_s=0.0))
