"""The picture of asynchronous training."""

import pytest

SIMULATED = [
    {
        "section": "simulator",
        "table": table,
        "eta": eta,
        "published_tokens_per_s": 10.0,
        "simulated_tokens_per_s": 11.0,
    }
    for table in ("2", "7")
    for eta in ("0", "inf")
]
LENGTHS = [
    {
        "section": "staleness",
        "variant": "pace",
        "length_bins": [0, 10],
        "submitted": [3, 1],
        "consumed": [2, 1],
    }
]


def run(variant, rate=100.0):
    return {
        "section": "throughput",
        "variant": variant,
        "tokens_per_s": rate,
        "win_rate": 0.5,
        "win_rate_low": 0.4,
        "win_rate_high": 0.6,
        "games_per_step": 10,
        "win_rates_of_steps": [0.5] * 8,
        "staleness_of_steps": [0.0] * 8,
    }


RUNS = [
    run(name)
    for name in (
        "sync, one core",
        "eta 0",
        "eta 2, decoupled",
        "eta 16, decoupled",
        "eta inf, decoupled",
        "eta 2, naive",
        "eta 2, decoupled, replies not broken off",
    )
]


@pytest.fixture
def tool(load_tool):
    pytest.importorskip("matplotlib")
    return load_tool("async_plot")


def width(target):
    content = target.read_bytes()
    assert content[:4] == b"\x89PNG"
    return int.from_bytes(content[16:20], "big")


def test_each_part_that_was_measured_has_its_panels(tool, tmp_path):
    target = tmp_path / "new" / "async.png"
    widths = []
    for rows in (SIMULATED, [*SIMULATED, *LENGTHS], [*SIMULATED, *LENGTHS, *RUNS]):
        tool.draw_async([*rows, {"section": "packing"}], target)
        widths.append(width(target))
    assert [each / widths[0] for each in widths] == [1, 2, 5]


def test_bounds_stand_in_their_order(tool):
    assert tool._etas(RUNS, "decoupled") == ["2", "16", "inf"]


def test_nothing_is_drawn_of_parts_without_a_panel(tool, tmp_path):
    tool.draw_async([{"section": "packing", "rows": "tail"}], tmp_path / "async.png")
    assert not list(tmp_path.iterdir())
