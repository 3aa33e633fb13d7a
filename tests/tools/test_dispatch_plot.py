"""The picture of times and floors."""

import pytest


def test_a_picture_shows_every_number_of_hosts(load_tool, tmp_path):
    rows = [
        {
            "hosts": hosts,
            "tokens_per_row": tokens,
            "transport": transport,
            "seconds": 0.1 * hosts,
            "floor_s": 0.09 * hosts,
        }
        for hosts in (4, 8)
        for tokens in (10, 20)
        for transport in ("all_to_all", "pipelined")
    ]
    pytest.importorskip("matplotlib")
    target = tmp_path / "new" / "times.png"
    draw_times = load_tool("dispatch_plot").draw_times
    draw_times(rows, target)
    wide = target.read_bytes()
    draw_times(rows[:4], target)
    assert wide[:4] == target.read_bytes()[:4] == b"\x89PNG"
    width = slice(16, 20)
    assert int.from_bytes(wide[width], "big") == 2 * int.from_bytes(
        target.read_bytes()[width], "big"
    )
