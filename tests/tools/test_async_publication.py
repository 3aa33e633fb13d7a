"""What the timings of publications are made into."""

import pytest


@pytest.fixture
def tool(load_tool):
    return load_tool("async_publication")


def test_a_row_holds_the_medians_and_figures_are_called_by_way_and_workers(tool):
    took = {
        "store": [tool.Took(held_up_s=each, in_use_s=2 * each) for each in (1.0, 9.0, 2.0)],
        "broadcast": [tool.Took(held_up_s=0.5, in_use_s=0.75)],
    }
    rows = tool.make_rows(took, num_workers=2, num_bytes=100)
    assert rows[0] == {
        "way": "store",
        "workers": 2,
        "bytes": 100,
        "held_up_s": 2.0,
        "in_use_s": 4.0,
        "seconds": [2.0, 18.0, 4.0],
    }
    figures = tool.make_figures(rows)
    assert {name: figure.value for name, figure in figures.items()} == {
        "store_to_2_held_up": 2.0,
        "store_to_2_in_use": 4.0,
        "broadcast_to_2_held_up": 0.5,
        "broadcast_to_2_in_use": 0.75,
    }


@pytest.mark.slow
def test_a_quick_run_publishes_in_both_ways(tool):
    section = tool.measure(True)
    assert {(row["way"], row["workers"]) for row in section.rows} == {
        ("store", 1),
        ("broadcast", 1),
    }
    assert all(0 < row["held_up_s"] <= row["in_use_s"] < 60 for row in section.rows)
