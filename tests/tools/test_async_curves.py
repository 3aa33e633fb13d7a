"""Learning curves of runs that are compared."""

import pytest


@pytest.fixture
def tool(load_tool):
    return load_tool("async_curves")


def run(variant, win_rates, staleness):
    return {
        "variant": variant,
        "win_rates_of_steps": win_rates,
        "staleness_of_steps": staleness,
        "games_per_step": 100,
    }


def test_runs_of_a_variant_share_a_curve_of_windows(tool):
    rows = [
        run("a", [0.2] * 4 + [0.4] * 4, [0.0] * 8),
        run("a", [0.4] * 4 + [0.6] * 4, [0.0] * 8),
        run("b", [0.9] * 8, [0.0] * 8),
    ]
    curve = tool.learning_curve(rows, "a")
    assert [(point.version, point.games) for point in curve] == [(1.5, 800), (5.5, 800)]
    assert [point.win_rate for point in curve] == pytest.approx([0.3, 0.5])


def test_games_count_for_the_weights_that_played_them(tool):
    ahead = tool.learning_curve([run("a", [0.2] * 6 + [0.4] * 2, [0, 1, 2, 2, 2, 2, 2, 2])], "a")
    assert [(point.games, point.win_rate) for point in ahead] == [
        (600, pytest.approx(0.2)),
        (200, pytest.approx(0.4)),
    ]


def test_curves_that_agree_somewhere_are_judged_where_they_do_not(tool):
    same = tool.learning_curve([run("a", [0.5] * 8, [0] * 8)], "a")
    other = tool.learning_curve([run("b", [0.5] * 4 + [0.9] * 4, [0] * 8)], "b")
    assert tool.widest_gap(same, same) < 0
    low, high = other[1].interval()[0], same[1].interval()[1]
    assert tool.widest_gap(same, other) == pytest.approx(low - high)
    assert tool.widest_gap(same, other[:1]) < 0
