"""What is made of runs with stragglers, and that no bound is broken in small ones."""

from collections import Counter
from types import SimpleNamespace

import pytest


@pytest.fixture
def tool(load_tool):
    return load_tool("async_staleness")


@pytest.fixture
def story(tool):
    """Ten groups, of which one that is slow was dropped, and one that is slow is under way."""
    slow = [group for group in range(100) if tool.has_slow(group)][:2]
    others = [group for group in range(100) if not tool.has_slow(group)][:8]
    made = tool.Story(variant=tool.Variant(label="some", batch_groups=4, discard=True))
    made.told = {
        group: SimpleNamespace(
            emitted_tokens=[900 if tool.is_slow(each) else 6 for each in tool.episodes_of(group)],
            took_s=20.0 if group in slow else 0.5,
        )
        for group in (*others, *slow)
    }
    made.consumed = others
    made.kept = {"num_consumed": 8, "first": 100, "again": slow[1:]}
    made.ages = Counter({0: 60, 1: 20, 4: 20})
    made.num_dropped, made.seconds = 1, 8.0
    return made


def values(figures):
    return {name: figure.value for name, figure in figures.items()}


def test_figures_say_how_old_tokens_are_and_the_bound_is_a_goal_only_where_it_is_promised(
    tool, story
):
    figures = tool.staleness_figures(story)
    assert values(figures) == {
        "max_staleness": 4,
        "mean_staleness": 1.0,
        "older_than_eta": 0.2,
        "batch": 4.0,
    }
    assert figures["max_staleness"].goal == "<= 2"
    goals = {
        each.label: tool.staleness_figures(tool.Story(
            variant=each, ages=story.ages, consumed=[*range(16)]
        ))["max_staleness"].goal
        for each in (*tool.STRICT, tool.PACE, tool.DISCARD)
    }  # fmt: skip
    assert goals == {
        **{f"strict_eta_{eta}": f"<= {eta}" for eta in (0, 1, 2, 4)},
        "pace": "",
        "discard": "<= 2",
    }


def test_lengths_are_those_of_what_was_consumed_or_dropped(tool, story):
    assert values(tool.length_figures(story)) == pytest.approx({
        "slow_share_submitted": 1 / 18,
        "mean_tokens_submitted": (17 * 6 + 900) / 18,
        "slow_share_consumed": 0.0,
        "mean_tokens_consumed": 6.0,
        "slow_share_under_way": 0.5,
    })  # fmt: skip
    row = tool.describe_lengths(story)
    assert row == {
        "variant": "some",
        "length_bins": [4, 8, 16, 32, 64, 128, 256, 512],
        "submitted": [0, 17, 0, 0, 0, 0, 0, 1],
        "consumed": [0, 16, 0, 0, 0, 0, 0, 0],
    }


def test_a_row_counts_the_slow_groups_and_those_under_way(tool, story):
    row = tool.describe(story)
    assert row["tokens_by_staleness"] == {"0": 60, "1": 20, "4": 20}
    assert (row["batches"], row["slow_groups_consumed"], row["slow_groups_under_way"]) == (2, 0, 1)
    assert (row["slow_group_s"], row["other_group_s"]) == (20.0, 0.5)


def test_slowness_is_of_episodes_in_tokens_and_of_groups_in_time(tool, story):
    others = 16 * [6] + 2 * [6]
    assert values(tool.slowness_figures(story.told)) == pytest.approx({
        "slow_over_fast_tokens": 900 / (sum(others) / len(others)),
        "slow_over_fast_alone": 40.0,
    })


def test_what_was_miscounted_in_any_run_is_summed(tool, story):
    story.num_ticks, story.num_out_of_balance = 5, 1
    story.consumed = [*story.consumed, story.consumed[0]]
    figures = tool.balance_figures([story, story])
    assert (figures["ticks"].value, figures["ticks_out_of_balance"].value) == (10, 2)
    assert figures["groups_consumed_twice"].value == 2
    # Of a hundred groups that were started nine are known of, and one was dropped.
    assert figures["groups_lost"].value == 2 * (100 - 9 - 1)
    assert {name for name, figure in figures.items() if figure.goal == "== 0"} == {
        "ticks_out_of_balance",
        "groups_lost",
        "groups_consumed_twice",
    }


@pytest.mark.slow
def test_in_small_runs_bounds_hold_and_slow_groups_are_dropped_but_not_paced_away(tool):
    section = tool.measure(True)
    figures = values(section.figures)
    for eta in (0, 1, 2, 4):
        assert figures[f"strict_eta_{eta}_max_staleness"] <= eta
    assert figures["discard_max_staleness"] <= 2
    assert figures["ticks"] > 50
    assert figures["ticks_out_of_balance"] == 0
    assert figures["groups_lost"] == figures["groups_consumed_twice"] == 0
    for name in ("lost_worker", "resumed"):
        assert figures[f"{name}_groups_again"] > 0
        assert figures[f"{name}_room_not_restored"] == 0
    assert figures["slow_over_fast_tokens"] > 6
    assert figures["pace_slow_share_consumed"] == figures["pace_slow_share_submitted"]
    lengths = {row["variant"]: row for row in section.rows if "length_bins" in row}
    runs = {row["variant"]: row for row in section.rows if "ticks" in row}
    for label, row in lengths.items():
        dropped = 2 * runs[label]["groups_dropped"]
        assert sum(row["submitted"]) - sum(row["consumed"]) == dropped
        assert sum(row["consumed"]) == 2 * runs[label]["groups_consumed"]
