"""What is made of runs that collapse, and of those that do not."""

import json

import pytest


@pytest.fixture
def tool(load_tool):
    return load_tool("selector_collapse")


def trained(tool, returns, cuts, *, degrees=None, win_rate=0.5):
    records = [
        {
            "reward/mean": each,
            "context/cut_share": cut,
            "game/outcome_mean": each / 2,
            "selector/tp": tp,
        }
        for each, cut, tp in zip(returns, cuts, degrees or [1.0] * len(cuts), strict=True)
    ]
    return tool.Trained(records=records, final_match={"win_rate": win_rate, "games": 200})


def test_what_was_low_before_the_peak_is_no_collapse(tool):
    # Cut from the first step on, low at first, and good at the end.
    rising = [-0.9] * 8 + [0.8] * 8
    row = tool.judge(0, "off", trained(tool, rising, [0.3] * 16))
    assert (row["peak_step"], row["first_step_of_20_percent_cut"]) == (15, 0)
    assert row["worst_return_after_cuts"] == pytest.approx(0.8)


def test_a_fall_counts_from_the_first_step_with_many_cut_episodes(tool):
    returns = [0.8] * 8 + [0.0] * 8 + [0.8] * 8
    cuts = [0.0] * 16 + [0.19] * 4 + [0.2] * 4
    row = tool.judge(0, "off", trained(tool, returns, cuts))
    assert (row["peak_step"], row["first_step_of_20_percent_cut"]) == (7, 20)
    # Eight steps that end at step 20: three of 0 and five of 0.8.
    assert row["worst_return_after_cuts"] == pytest.approx(0.5)
    uncut = tool.judge(0, "on", trained(tool, returns, [0.0] * 24))
    assert uncut["worst_return_after_cuts"] == uncut["final_return"] == pytest.approx(0.8)


def test_rows_hold_every_step_and_the_match_at_the_end(tool):
    returns, cuts = [0.1 * step for step in range(10)], [0.0] * 9 + [0.25]
    degrees = [1.0] * 4 + [2.0] * 6
    row = tool.judge(3, "on", trained(tool, returns, cuts, degrees=degrees, win_rate=0.75))
    assert (row["cut_shares"], row["tp_of_steps"]) == (cuts, "1111222222")
    assert row["returns"] == pytest.approx(returns)
    assert row["final_match"] == {"win_rate": 0.75, "games": 200}
    # Half of the last eight returns.
    assert row["final_outcome_of_played_games"] == pytest.approx(sum(returns[2:]) / 16)


def test_figures_take_the_worst_run_and_say_how_games_ended(tool):
    def pair(seed, low):
        falling = [0.8, 0.9] * 4 + [low] * 8
        cuts = [0.0] * 8 + [1.0] * 8
        yield tool.judge(seed, "off", trained(tool, falling, cuts, win_rate=0.2))
        yield tool.judge(seed, "on", trained(tool, [0.8, 0.9] * 8, [0.0] * 16, win_rate=0.6))

    rows = [*pair(0, -0.4), *pair(1, 0.3)]
    figures = tool.make_figures(rows)
    assert all(figure.to_dict()["holds"] for figure in figures.values())
    assert figures["return_over_peak_without"].value == pytest.approx(0.3 / 0.85)
    assert figures["final_win_rate_without"].value == pytest.approx(0.2)
    assert figures["final_win_rate_with"].value == pytest.approx(0.6)
    assert figures["final_outcome_of_played_games_without"].value == pytest.approx(-0.025)
    collapsed = tool.make_figures([*rows, *pair(2, 0.5)])
    assert not collapsed["return_over_peak_without"].to_dict()["holds"]


def test_a_run_is_read_from_its_folder(tool, tmp_path):
    steps = [{"phase": "warmup", "step": 0}, {"phase": "rl", "step": 1}, {"evaluation": "after"}]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, steps)))
    match = {"win_rate": 0.5}
    (tmp_path / "summary.json").write_text(json.dumps({"evaluation": {"after": match}}))
    read = tool.read_run(tmp_path)
    assert (read.records, read.final_match) == ([steps[1]], match)


def test_stored_runs_are_judged_by_the_rules_of_today_and_nothing_is_made_up(tool, tmp_path):
    old = {
        "section": "collapse",
        "peak_low": 0.0,
        "worst_return_after_cuts": -0.9,
        "first_step_of_20_percent_cut": 0,
        "most_cut_share": 0.5,
        "returns": [-0.9] * 8 + [0.8] * 7 + [0.7],
    }
    rows = [{**old, "selector": "off"}, {**old, "selector": "on"}]
    other = {"section": "fig3", "note": "untouched"}
    target = tmp_path / "selector.json"
    target.write_text(json.dumps({"figures": {}, "rows": [other, *rows], "environment": {"a": 1}}))
    tool.judge_stored(target)
    stored = json.loads(target.read_text())
    assert (stored["environment"], stored["rows"][0]) == ({"a": 1}, other)
    assert stored["rows"][1]["worst_return_after_cuts"] == pytest.approx(6.3 / 8)
    assert stored["figures"]["collapse_return_over_peak_without"]["value"] == pytest.approx(1.0)
    assert not any("win_rate" in name for name in stored["figures"])
