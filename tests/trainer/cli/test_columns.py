"""Cells that stand below one another."""

from earl_trainer.cli.columns import align
from hypothesis import given
from hypothesis import strategies as st

CELLS = st.text("ab ", max_size=6).map(str.strip)


def test_figures_stand_to_the_right_below_their_heading():
    assert align([("", "8K", "16K"), ("floor, s", "0.5", "12")]) == (
        "           8K  16K\nfloor, s  0.5   12"
    )


def test_a_message_in_place_of_figures_widens_no_column():
    broken = ("gone/Game-v0", "ValueError: no such module")
    assert align([("game", "seats", "x"), ("a", "2", "3"), broken]).splitlines() == [
        "game          seats  x",
        "a                 2  3",
        "gone/Game-v0  ValueError: no such module",
    ]


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[CELLS] * n), min_size=1)))
def test_every_column_ends_at_one_place(rows):
    lines = align(rows).split("\n")
    end = max(len(row[0]) for row in rows)
    for column in range(1, len(rows[0])):
        end += 2 + max(len(row[column]) for row in rows)
        for row, line in zip(rows, lines, strict=True):
            assert line.ljust(end)[:end].endswith(row[column])
    for row, line in zip(rows, lines, strict=True):
        assert line.startswith(row[0])
        assert line == line.rstrip()
