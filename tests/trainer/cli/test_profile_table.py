"""A profile as people read it."""

from dataclasses import replace

import pytest
from earl_selector import ProfileGrid, ProfilePoint, ProfileSubject, ProfileTable
from earl_trainer.cli.profile_table import describe_point, describe_switch, describe_table


def point(tp, num_responses, context_tokens, rate):
    return ProfilePoint(
        tp=tp,
        num_responses=num_responses,
        context_tokens=context_tokens,
        tokens_per_s_per_device=rate,
    )


@pytest.fixture
def table():
    empty = ProfileTable(
        subject=ProfileSubject(model="llama 1M", device="a cpu", engine="embedded 1"),
        grid=ProfileGrid(degrees=(1, 2), num_responses=(8, 16), context_tokens=(64, 2048)),
    )
    measured = ((1, 8, 64, 1234.4), (2, 8, 64, 99.96), (1, 16, 64, 5.0), (2, 16, 64, 7.123),
                (1, 16, 2048, 0.0), (2, 16, 2048, 0.0))  # fmt: skip
    return replace(empty, points=tuple(point(*each) for each in measured))


def test_every_load_has_a_line_and_every_degree_a_column(table):
    subject, rows, legend = describe_table(table).split("\n\n")
    assert subject == "llama 1M\na cpu\nembedded 1"
    assert [line.split("  ") and line.split() for line in rows.splitlines()] == [
        ["responses", "context", "resident", "tp", "1:", "tok/s", "tp", "2:", "tok/s", "fastest"],
        ["8", "64", "512", "1,234", "100", "tp", "1"],
        ["8", "2,048", "16,384", "?", "?", "-"],
        ["16", "64", "1,024", "5", "7.12", "tp", "2"],
        ["16", "2,048", "32,768", "-", "-", "-"],
    ]
    assert legend.endswith("\na change of degree: not measured yet\n")


def test_one_measurement_is_a_line():
    assert describe_point(point(2, 16, 2048, 1234.4)) == (
        "tp 2, 16 x 2,048 tokens: 1,234 tok/s per device"
    )
    assert describe_point(point(2, 1, 64, 0.0)) == "tp 2, 1 x 64 tokens: could not be run"


def test_a_switch_is_told_where_there_is_one(table):
    assert describe_switch(replace(table, switch_s=0.12345)) == "a change of degree takes 0.123 s"
    single = ProfileTable(subject=table.subject, grid=replace(table.grid, degrees=(1,)))
    assert describe_switch(single) == "one degree: nothing to switch to"
