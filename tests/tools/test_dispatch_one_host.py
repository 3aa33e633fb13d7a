"""Measurements that need no network."""

import pytest


@pytest.fixture
def tool(load_tool):
    return load_tool("dispatch_one_host")


def test_small_plans_are_fast_and_place_rows_at_the_minimum(tool):
    figures = tool.plan_figures(num_rows=300, num_ranks=8, ranks_per_host=2)
    assert 0 < figures["plan"].value < 1
    assert 0 <= figures["placement_over_minimum"].value <= 1


@pytest.mark.slow
def test_a_result_takes_little_more_memory_than_what_is_received(tool):
    figures = tool.one_host_figures(tokens_per_row=1 << 13, num_repeats=2)
    times = [
        figures[f"one_host_{name}"].value for name in ("shared_memory", "all_to_all", "plain_copy")
    ]
    assert min(times) > 0
    assert figures["one_host_ratio"].value == pytest.approx(times[1] / times[0])
    # Booleans take a bit on the wire and a byte in memory: 13 bytes a token in place of 12.125.
    assert 13 / 12.125 < figures["one_host_peak_memory"].value < 3
