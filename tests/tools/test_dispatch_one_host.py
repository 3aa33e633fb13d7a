"""Measurements that need no network."""

import pytest


@pytest.fixture
def tool(load_tool):
    return load_tool("dispatch_one_host")


def test_small_plans_are_fast_and_place_rows_at_the_minimum(tool):
    figures = tool.plan_figures(num_rows=300, num_ranks=8, ranks_per_host=2)
    for name in ("plan", "plan_skewed"):
        assert 0 < figures[name].value < 1
        assert 0 <= figures[f"{name}_over_minimum"].value <= 1


def test_a_repetition_takes_as_long_as_its_slower_rank_and_the_median_counts(tool, monkeypatch):
    times = [{"shared_memory": [1.0, 2.0, 9.0], "all_to_all": [8.0, 1.0, 1.0]}] * 2
    times = [
        {**each, "plain_copy": copy}
        for each, copy in zip(times, ([1, 5, 2], [4, 1, 1]), strict=True)
    ]
    results = {"_time_swaps": times, "_swap_and_watch": [1.1, 0.0]}
    monkeypatch.setattr(
        tool, "run_ranks", lambda num_ranks, fn, *args, timeout_s: results[fn.__name__]
    )
    figures = tool.one_host_figures(tokens_per_row=1, num_repeats=3)
    assert figures["one_host_shared_memory"].value == 2.0
    assert figures["one_host_plain_copy"].value == 4
    assert figures["one_host_ratio"].value == 0.5


@pytest.mark.slow
def test_a_result_takes_little_more_memory_than_what_is_received(tool):
    figures = tool.one_host_figures(tokens_per_row=1 << 13, num_repeats=2)
    times = [
        figures[f"one_host_{name}"].value for name in ("shared_memory", "all_to_all", "plain_copy")
    ]
    assert min(times) > 0
    assert figures["one_host_ratio"].value == pytest.approx(times[1] / times[0])
    # Booleans take a bit on the wire and a byte in memory: 13 bytes a token in place of 12.125.
    assert 0.9 * 13 / 12.125 < figures["one_host_peak_memory"].value < 3
