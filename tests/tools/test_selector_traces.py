"""The comparison of policies on made-up traces."""

from dataclasses import replace
from math import fsum

import pytest


@pytest.fixture
def tool(load_tool):
    return load_tool("selector_traces")


def test_policies_are_compared_with_the_optimum_on_the_same_trace(tool):
    (result,) = tool.compare([2], tool.make_cluster())
    assert result.crosses
    assert set(result.replays) == {"selector", "earl", "throttle", "fixed_4", "fixed_8"}
    fixed = [result.replays[name].total_s for name in ("fixed_4", "fixed_8")]
    assert result.best_fixed_s == pytest.approx(min(fixed))
    for each in result.replays.values():
        assert len(each.steps) == len(result.trace.loads)
        assert each.total_s >= result.optimum.total_s * (1 - 1e-12)
    selector = result.replays["selector"]
    charged = fsum(step.rollout_s for step in selector.steps) + 6.0 * selector.num_switches
    assert selector.total_s == pytest.approx(charged)


def test_figures_follow_from_the_results(tool):
    results = tool.compare([0, 1, 2], tool.make_cluster())
    figures = tool.summarise(results)
    regrets = [each.replays["selector"].total_s / each.optimum.total_s - 1 for each in results]
    assert figures["mean_regret"].value == pytest.approx(sum(regrets) / 3)
    against = [each.replays["selector"].total_s / each.best_fixed_s - 1 for each in results]
    assert figures["worst_against_best_fixed"].value == pytest.approx(max(against))
    assert figures["crossing_traces"].goal == "== 3"
    assert figures["mean_regret_growing"].value == pytest.approx(regrets[0])


@pytest.mark.parametrize(("saving_s", "worth"), [(6.0, False), (6.1, True)])
def test_a_trace_is_worth_switching_where_following_saves_more_than_a_switch(
    tool, monkeypatch, saving_s, worth
):
    (result,) = tool.compare([1], tool.make_cluster())
    monkeypatch.setattr(tool.Result, "following_saves_s", lambda self: saving_s)
    assert result.worth_switching() is worth


def test_only_traces_that_are_worth_switching_are_judged_by_it(tool):
    results = tool.compare([0, 1, 2], tool.make_cluster())
    assert [result.worth_switching() for result in results] == [True, True, False]
    figures = tool.summarise(results)
    assert figures["worth_switching"].value == 2
    against = [result.against_fixed("selector") for result in results[:2]]
    mean = figures["mean_against_best_fixed_where_worth_switching"]
    assert (mean.value, mean.goal) == (pytest.approx(sum(against) / 2), "< 0")
    faster = figures["faster_than_best_fixed_where_worth_switching"].value
    assert faster == sum(each < 0 for each in against) / 2


def test_queueing_at_a_degree_that_does_not_hold_the_forecast_is_avoidable_where_one_does(tool):
    (result,) = tool.compare([0], tool.make_cluster())
    assert result.num_avoidable_queues("selector") == 0
    steps = [
        replace(step, waiting_s=1.0, decision=replace(step.decision, tp=4, feasible=(8,)))
        for step in result.replays["selector"].steps
    ]
    steps[0] = replace(steps[0], waiting_s=0.0)
    steps[1] = replace(steps[1], decision=replace(steps[1].decision, feasible=()))
    steps[2] = replace(steps[2], decision=replace(steps[2].decision, tp=8))
    wrong = replace(
        result, replays={"selector": replace(result.replays["selector"], steps=tuple(steps))}
    )
    assert wrong.num_avoidable_queues("selector") == len(steps) - 3


@pytest.mark.slow
def test_every_tenth_trace_reaches_the_goals(tool):
    figures = tool.summarise(tool.compare(tool.TRACE_SEEDS[::10], tool.make_cluster()))
    for name, figure in figures.items():
        assert figure.to_dict()["holds"], name
