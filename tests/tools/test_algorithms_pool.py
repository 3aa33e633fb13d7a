"""Seeds of an algorithm taken together."""

import pytest


@pytest.fixture
def tool(load_tool):
    return load_tool("algorithms_pool")


def row(algorithm, *, before=(0.4, 100), after=(0.6, 100), illegal_rate=0.0, wall_s=60.0,
        peak_bytes=1, curve=(0.4, 0.6)):  # fmt: skip
    return {
        "algorithm": algorithm,
        "wall_s": wall_s,
        "peak_bytes": peak_bytes,
        "win_rates_of_steps": list(curve),
        "evaluation": {
            "before": {"win_rate": before[0], "games": before[1], "illegal_rate": 0.5},
            "after": {"win_rate": after[0], "games": after[1], "illegal_rate": illegal_rate},
        },
    }


def test_games_of_all_seeds_make_one_rate_with_a_narrower_interval(tool):
    (one,) = tool.pool([row("a", after=(0.5, 100))])
    (both,) = tool.pool([row("a", after=(0.5, 100)), row("a", after=(0.8, 200))])
    assert both.after.rate == pytest.approx(0.7)
    assert both.after.low < 0.7 < both.after.high
    assert both.after.high - both.after.low < one.after.high - one.after.low


def test_time_is_the_mean_and_memory_and_illegal_replies_are_the_worst(tool):
    (both,) = tool.pool([
        row("a", wall_s=50.0, peak_bytes=3, illegal_rate=0.01, curve=(0.2, 0.4)),
        row("a", wall_s=70.0, peak_bytes=2, illegal_rate=0.03, curve=(0.4, 0.8)),
    ])
    assert (both.num_seeds, both.wall_s, both.peak_bytes) == (2, 60.0, 3)
    assert both.illegal_rate == 0.03
    assert both.curve == pytest.approx([0.3, 0.6])


def test_algorithms_keep_the_order_of_their_first_rows(tool):
    pooled = tool.pool([row("b"), row("a"), row("b")])
    assert [(each.algorithm, each.num_seeds) for each in pooled] == [("b", 2), ("a", 1)]
