"""Traces on which a policy can lose rollouts."""

import pytest
from earl_selector import SelectorPolicy


@pytest.fixture
def tool(load_tool):
    return load_tool("selector_walls")


def test_a_full_context_fits_two_devices_and_not_one(tool):
    assert tool.MEMORY.capacity_tokens(1) < 32_768 < tool.MEMORY.capacity_tokens(2)


def test_whoever_is_at_the_small_degree_loses_long_contexts_and_the_selector_is_not(tool):
    section = tool.measure(quick=True)
    assert [row["seed"] for row in section.rows] == list(range(200, 206))
    figures = section.figures
    assert figures["lost_rollouts_fixed_1"].value > 0
    assert figures["lost_rollouts"].value == sum(row["lost_rollouts"] for row in section.rows) == 0
    assert figures["avoidable_queueing"].to_dict()["holds"]


def test_a_policy_that_forgets_the_wall_would_be_seen(tool, monkeypatch):
    monkeypatch.setattr(SelectorPolicy, "usable_degrees", property(lambda self: (1,)))
    results = tool.compare([200], tool.make_cluster(), crossover_tp=tool.CROSSOVER_TP)
    assert not tool.summarise(results)["lost_rollouts"].to_dict()["holds"]
