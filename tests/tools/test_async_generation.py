"""What the timings of generation are made into."""

import pytest


@pytest.fixture
def tool(load_tool):
    return load_tool("async_generation")


def test_a_gain_is_the_median_of_what_each_round_shows(tool):
    times = tool.Times(
        num_tokens={"new": 200, "old": 100},
        seconds={"new": [1.0, 5.0, 1.0], "old": [2.0, 2.0, 3.0]},
    )
    # Per round 2, 0.4 and 3 times as fast, with twice as many tokens.
    assert times.gain("new", over="old") == pytest.approx(4.0)
    assert times.tokens_per_s("new") == 200.0
    assert times.tokens_per_s("old") == 50.0
    rows = times.rows("kind")
    assert [(row["games"], row["way"], row["tokens"]) for row in rows] == [
        ("kind", "new", 200),
        ("kind", "old", 100),
    ]


def test_every_way_has_its_turn_in_every_round_after_one_that_does_not_count(tool):
    ran = []

    def run(name, num_tokens):
        ran.append(name)
        return num_tokens

    times = tool.time_in_turn({"a": lambda: run("a", 3), "b": lambda: run("b", 4)}, 2)
    assert ran == ["a", "b"] * 3
    assert times.num_tokens == {"a": 3, "b": 4}
    assert [len(seconds) for seconds in times.seconds.values()] == [2, 2]


@pytest.mark.slow
def test_a_quick_run_measures_everything_and_finds_equal_replies(tool):
    section = tool.measure(True)
    assert section.figures["equal_or_tied_games"].to_dict()["holds"]
    gains = {name for name, figure in section.figures.items() if figure.goal.startswith("> 1")}
    assert gains == {"turn_reuse_gain", "group_prefix_gain", "continuous_batching_gain"}
    assert section.figures["over_generate"].goal == ">= 2"
    assert all(figure.value >= 0 for figure in section.figures.values())
    ways = {(row["games"], row["way"]) for row in section.rows}
    assert len(ways) == len(section.rows) == 8
