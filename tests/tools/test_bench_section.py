"""Parts of what is measured about the selector in one file."""

import json

import pytest


@pytest.fixture
def tool(load_tool):
    return load_tool("bench_section")


def section_of(tool, value, rows, goal="<= 2"):
    figure = tool.Figure(value=value, unit="s", goal=goal)
    return tool.Section(figures={"time": figure}, rows=rows)


def test_figures_and_rows_say_of_which_part_they_are(tool):
    sections = {
        "fast": section_of(tool, 1.0, [{"a": 1}, {"a": 2}]),
        "slow": section_of(tool, 3.0, [{"b": 3}]),
    }
    whole = tool.merge(sections)
    assert {name: figure.value for name, figure in whole.figures.items()} == {
        "fast_time": 1.0,
        "slow_time": 3.0,
    }
    assert list(whole.rows) == [
        {"section": "fast", "a": 1},
        {"section": "fast", "a": 2},
        {"section": "slow", "b": 3},
    ]


def test_a_stored_file_gives_the_parts_back(tool):
    sections = {
        "fast": section_of(tool, 1.0, [{"a": 1}]),
        "fast_too": section_of(tool, 2.0, [{"a": 2}], goal=""),
        "silent": tool.Section(figures={}, rows=[{"note": "nothing"}]),
        "bare": section_of(tool, 4.0, []),
    }
    whole = tool.merge(sections)
    stored = {
        "figures": {name: figure.to_dict() for name, figure in whole.figures.items()},
        "rows": list(whole.rows),
    }
    names = tuple(sections)
    assert tool.split(json.loads(json.dumps(stored)), names) == sections
    assert tool.split({"figures": {}, "rows": []}, names) == {}
