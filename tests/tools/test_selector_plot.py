"""The picture of rules and policies."""

import pytest

CELL = {"section": "fig3", "roofline_percent": 1.0, "share_of_tp4_capacity": 0.5}
CELLS = [
    {**CELL, "resident_tokens": 2**13, "measured_percent": -20.0},
    {**CELL, "resident_tokens": 2**14, "measured_percent": None},
    {"section": "fig3", "note": "words"},
]
POLICIES = ("selector", "earl", "throttle", "best_fixed", "fixed_4", "fixed_8")
TRACES = [
    {"section": "traces", "optimum_s": 10.0, **{f"{name}_s": 11.0 for name in POLICIES}},
    {"section": "traces", "optimum_s": 10.0, **{f"{name}_s": 10.0 for name in POLICIES}},
]


@pytest.fixture
def draw(load_tool):
    pytest.importorskip("matplotlib")
    return load_tool("selector_plot").draw_selector


def test_each_part_that_was_measured_has_a_panel(draw, tmp_path):
    target = tmp_path / "new" / "selector.png"
    widths = []
    for rows in (CELLS, [*CELLS, *TRACES], [*CELLS, *TRACES, {"section": "reshard"}]):
        draw(rows, target)
        content = target.read_bytes()
        assert content[:4] == b"\x89PNG"
        widths.append(int.from_bytes(content[16:20], "big"))
    assert widths[1] == widths[2] == 2 * widths[0]


def test_nothing_is_drawn_of_parts_without_a_panel(draw, tmp_path):
    draw([{"section": "reshard", "num_ranks": 8}], tmp_path / "selector.png")
    assert not list(tmp_path.iterdir())
