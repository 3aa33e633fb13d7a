"""The comparison of policies on made-up traces."""

from math import fsum

import pytest


@pytest.fixture
def tool(load_tool):
    return load_tool("selector_traces")


def test_policies_are_compared_with_the_optimum_on_the_same_trace(tool):
    (result,) = tool.compare([2])
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
    results = tool.compare([0, 1, 2])
    figures = tool.summarise(results)
    regrets = [each.replays["selector"].total_s / each.optimum.total_s - 1 for each in results]
    assert figures["mean_regret"].value == pytest.approx(sum(regrets) / 3)
    against = [each.replays["selector"].total_s / each.best_fixed_s - 1 for each in results]
    assert figures["worst_against_best_fixed"].value == pytest.approx(max(against))
    assert figures["crossing_traces"].goal == "== 3"
    assert figures["mean_regret_growing"].value == pytest.approx(regrets[0])


@pytest.mark.slow
def test_every_tenth_trace_reaches_the_goals(tool):
    figures = tool.summarise(tool.compare(tool.TRACE_SEEDS[::10]))
    for name, figure in figures.items():
        assert figure.to_dict()["holds"], name
