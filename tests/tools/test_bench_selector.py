"""Everything measured about the selector in one run."""

import json

import pytest


@pytest.fixture
def tool(load_tool):
    return load_tool("bench_selector")


@pytest.fixture
def counted(load_tool, tool, monkeypatch):
    """Put two parts in place of the real ones; each measures how often it was asked."""
    figure_class = load_tool("benchmarking").Figure
    counts = {"fig3": 0, "traces": 0}

    def measure_as(name):
        def measure(quick):
            counts[name] += 1
            figures = {"times": figure_class(value=counts[name], unit="", goal="")}
            return load_tool("bench_section").Section(
                figures=figures, rows=[{"quick": quick, "note": f"{name} ran"}]
            )

        return measure

    measures = {name: measure_as(name) for name in counts}
    monkeypatch.setattr(tool, "find_measures", lambda subject, names: measures)
    monkeypatch.setattr(tool, "draw_selector", lambda rows, target: None)
    return counts


def read(target):
    stored = json.loads(target.read_text())
    return {name: figure["value"] for name, figure in stored["figures"].items()}, stored["rows"]


def test_parts_that_there_are_can_be_measured(tool):
    measures = tool.find_measures(tool.SUBJECT, tool.NAMES)
    assert list(measures)[:4] == ["fig3", "traces", "walls", "reshard"]
    assert set(measures) <= set(tool.NAMES)


def test_all_parts_go_into_one_file_and_notes_are_printed(tool, counted, tmp_path, capsys):
    target = tmp_path / "selector.json"
    tool.main(["--quick", "--out", str(target)])
    figures, rows = read(target)
    assert figures == {"fig3_times": 1, "traces_times": 1}
    assert [(row["section"], row["quick"]) for row in rows] == [("fig3", True), ("traces", True)]
    assert "- traces ran" in capsys.readouterr().out
    assert counted == {"fig3": 1, "traces": 1}


def test_one_part_is_measured_anew_and_the_others_stay(tool, counted, tmp_path):
    target = tmp_path / "selector.json"
    tool.main(["--out", str(target)])
    tool.main(["--only", "fig3", "--out", str(target)])
    figures, rows = read(target)
    assert figures == {"fig3_times": 2, "traces_times": 1}
    assert [row["section"] for row in rows] == ["fig3", "traces"]
    assert counted == {"fig3": 2, "traces": 1}


def test_quick_run_needs_a_file_of_its_own(tool, counted, capsys):
    with pytest.raises(SystemExit):
        tool.main(["--quick"])
    assert "--quick needs --out FILE" in capsys.readouterr().err
    assert counted == {"fig3": 0, "traces": 0}


def test_what_is_stored_is_a_full_run_and_reaches_its_goals(load_tool):
    stored = json.loads((load_tool("benchmarking").STORE / "selector.json").read_text())
    assert [row["seed"] for row in stored["rows"] if row["section"] == "traces"] == list(range(200))
    assert [name for name, figure in stored["figures"].items() if not figure["holds"]] == []
