"""Figures, their goals and the stored file."""

import json

import pytest


@pytest.fixture
def benchmarking(load_tool):
    return load_tool("benchmarking")


@pytest.mark.parametrize(
    ("goal", "below", "at", "above"),
    [
        ("< 0.5", True, False, False),
        ("<= 0.5", True, True, False),
        ("== 0.5", False, True, False),
        (">= 0.5", False, True, True),
        ("> 0.5", False, False, True),
        ("", True, True, True),
        ("> -1e+3", True, True, True),
    ],
)
def test_a_goal_is_compared_by_its_operator(benchmarking, goal, below, at, above):
    assert [benchmarking.holds(value, goal) for value in (0.4, 0.5, 0.6)] == [below, at, above]


@pytest.mark.parametrize("goal", ["300", "<=300", "=< 300", "<= many", "<= 300 s", " "])
def test_what_is_no_goal_is_refused(benchmarking, goal):
    with pytest.raises(ValueError, match="a goal is an operator and a number") as refusal:
        benchmarking.holds(1.0, goal)
    assert repr(goal) in str(refusal.value)


def test_a_value_that_is_no_number_misses_every_goal(benchmarking):
    goals = ["< 1", "<= 1", "== 1", ">= 1", "> 1"]
    assert not any(benchmarking.holds(float("nan"), goal) for goal in goals)


def test_a_figure_is_stored_with_its_verdict(benchmarking):
    figure = benchmarking.Figure(value=301.5, unit="s", goal="<= 300")
    assert figure.to_dict() == {"value": 301.5, "unit": "s", "goal": "<= 300", "holds": False}


def test_a_report_is_printed_and_stored(benchmarking, tmp_path, capsys):
    figures = {
        "wall": benchmarking.Figure(value=12.5, unit="s", goal="<= 10"),
        "wins": benchmarking.Figure(value=0.75, unit="", goal=""),
    }
    target = tmp_path / "new" / "some.json"

    benchmarking.report(figures, [{"seed": 3}], target=target)

    stored = json.loads(target.read_text())
    assert set(stored) == {"figures", "environment", "rows"}
    assert stored["figures"] == {
        "wall": {"value": 12.5, "unit": "s", "goal": "<= 10", "holds": False},
        "wins": {"value": 0.75, "unit": "", "goal": "", "holds": True},
    }
    assert stored["rows"] == [{"seed": 3}]
    assert {"date", "python", "cores", "memory_bytes", "torch"} <= set(stored["environment"])
    wall, wins = capsys.readouterr().out.splitlines()[:2]
    assert wall.split() == ["wall", "12.5000", "s", "<=", "10", "MISSED"]
    assert wins.split() == ["wins", "0.7500", "holds"]
