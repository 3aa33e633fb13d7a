"""What is shown while points are measured, in a terminal and elsewhere."""

import io
from dataclasses import replace

import pytest
from earl_selector import ProfileGrid, ProfilePoint, ProfileSubject, ProfileTable
from earl_trainer.cli.profile_progress import showing_progress
from rich.console import Console


@pytest.fixture
def tables():
    """An empty table, with one point, with both, and with its switch."""
    table = ProfileTable(
        subject=ProfileSubject(model="a", device="b", engine="c"),
        grid=ProfileGrid(degrees=(1, 2), num_responses=(8,), context_tokens=(64,)),
    )
    grown = [table]
    for tp in (1, 2):
        point = ProfilePoint(
            tp=tp, num_responses=8, context_tokens=64, tokens_per_s_per_device=90.0
        )
        grown.append(grown[-1].add(point))
    return [*grown, replace(grown[-1], switch_s=0.5)]


def shown(tables, **fields):
    target = io.StringIO()
    with showing_progress(tables[0], Console(file=target, **fields)) as show:
        for table in tables[1:]:
            show(table)
    return target.getvalue()


def test_elsewhere_every_point_and_the_switch_are_a_line(tables):
    assert shown(tables, force_terminal=False) == (
        "1/2 tp 1, 8 x 64 tokens: 90 tok/s per device\n"
        "2/2 tp 2, 8 x 64 tokens: 90 tok/s per device\n"
        "2/2 a change of degree takes 0.5 s\n"
    )
    # What was there before is not told again.
    assert shown(tables[1:], force_terminal=False).startswith("2/2 tp 2, ")


def test_in_a_terminal_a_bar_grows(tables):
    text = shown(tables, force_terminal=True, width=100, color_system=None)
    assert "2/2" in text
    assert "a change of degree takes 0.5 s" in text
    text = shown(tables[:2], force_terminal=True, width=100, color_system=None)
    assert "1/2" in text
    assert "tp 1, 8 x 64 tokens: 90 tok/s per device" in text
