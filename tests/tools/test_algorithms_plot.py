"""The picture of the learning table."""

import pytest


@pytest.fixture
def plot(load_tool):
    return load_tool("algorithms_plot")


def row(algorithm):
    result = {"win_rate": 0.5, "games": 40, "illegal_rate": 0.0}
    return {
        "algorithm": algorithm,
        "wall_s": 60.0,
        "peak_bytes": 1,
        "win_rates_of_steps": [0.4, 0.5, 0.6, 0.7, 0.8],
        "evaluation": {"before": result, "after": result},
    }


def test_runs_become_a_picture(plot, tmp_path):
    target = tmp_path / "algorithms.png"
    plot.draw_algorithms([row("a"), row("b")], target)
    assert target.read_bytes().startswith(b"\x89PNG")


def test_no_runs_leave_no_picture(plot, tmp_path):
    target = tmp_path / "algorithms.png"
    plot.draw_algorithms([], target)
    assert not target.exists()
