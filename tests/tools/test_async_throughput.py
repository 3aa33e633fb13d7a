"""Throughput of asynchronous runs, judged from what runs leave behind."""

import pytest
from earl_trainer.rollout.engine import NO_WEIGHTS, Completion, FinishReason
from earl_trainer.rollout.policies import Query
from earl_trainer.types import EpisodeStart


@pytest.fixture
def tool(load_tool):
    return load_tool("async_throughput")


class Script:
    """Always says the same."""

    def reply(self, queries):
        return [
            Completion(
                ids=(7, 2),
                logprobs=(0.0, 0.0),
                versions=(NO_WEIGHTS,) * 2,
                finish_reason=FinishReason.STOP,
            )
            for _ in queries
        ]


def ask(episode, *, room):
    start = EpisodeStart(
        episode=episode, table=0, group=0, seat=0, game_seed=1, reply_seed=1000 + episode
    )
    return Query(start=start, turn=0, state=None, prompt_ids=(1,), max_new_tokens=room)


def test_some_replies_get_filler_of_a_long_tail_in_front_and_none_exceeds_its_room(tool):
    replies = tool.Rambling(Script(), 9).reply([ask(episode, room=60) for episode in range(400)])
    lengths = sorted(len(reply.ids) for reply in replies)
    assert all(tuple(reply.ids[-2:]) == (7, 2) for reply in replies)
    assert all(set(reply.ids[:-2]) <= {9} for reply in replies)
    assert all(len(each.ids) == len(each.logprobs) == len(each.versions) for each in replies)
    assert 130 <= sum(length > 2 for length in lengths) <= 190, "two in five ramble"
    assert 19 <= lengths[320] <= 35, "of them, half"
    assert lengths[380] > 45
    assert lengths[-1] == 60


def row(variant, *, rate, low, high):
    return {
        "variant": variant.label,
        "tokens_per_s": rate,
        "win_rate_low": low,
        "win_rate_high": high,
        "games_per_step": 100,
        "win_rates_of_steps": [low] * 4 + [high] * 4,
        "staleness_of_steps": [0.0] * 8,
    }


def test_runs_of_a_seed_are_compared_and_curves_by_the_gap_between_intervals(tool):
    # The machine is twice as fast with the second seed, four times with the third.
    speeds = (1.0, 2.0, 4.0)
    rows = [
        *(row(tool.SYNC, rate=rate, low=0.4, high=0.5) for rate in (90.0, 200.0, 450.0)),
        *(row(tool.TURNS, rate=80.0 * speed, low=0.4, high=0.5) for speed in speeds),
        *(row(tool.BOTH, rate=150.0 * speed, low=0.4, high=0.5) for speed in speeds),
        *(row(tool.MAIN, rate=180.0 * speed, low=0.45, high=0.6) for speed in speeds[:2]),
        row(tool.MAIN, rate=720.0, low=0.52, high=0.6),
        *(row(tool.WAITING, rate=160.0 * speed, low=0.4, high=0.5) for speed in speeds),
    ]
    figures = tool.make_figures(rows)
    assert figures["eta_2_over_sync"].value == pytest.approx(1.8)
    assert figures["eta_2_over_eta_0"].value == pytest.approx(2.25)
    assert figures["eta_2_over_sync_on_both_cores"].value == pytest.approx(1.2)
    assert figures["gain_of_interruption"].value == pytest.approx(1.125)
    assert figures["win_rate_gap_between_intervals"].value == pytest.approx(0.02)
    assert not figures["curve_gap_between_intervals"].to_dict()["holds"]


def test_taking_turns_is_the_better_of_its_two_ways(tool):
    rates = {tool.SYNC: 90.0, tool.TURNS: 120.0, tool.BOTH: 150.0, tool.MAIN: 180.0}
    rows = [row(each, rate=rate, low=0.4, high=0.5) for each, rate in rates.items()]
    rows.append(row(tool.WAITING, rate=160.0, low=0.4, high=0.5))
    assert tool.make_figures(rows)["eta_2_over_sync"].value == pytest.approx(1.5)


def test_the_first_two_steps_do_not_count_for_throughput(tool):
    step = {
        "time/step_s": 2.0,
        "time/rollout_s": 1.0,
        "time/prepare_s": 0.25,
        "time/update_s": 0.5,
        "rate/update_tokens_per_s": 400.0,
        "staleness/mean": 1.0,
        "staleness/max": 2.0,
        "context/max_tokens": 90.0,
        "game/win_rate": 0.5,
    }
    slow = {**step, "time/step_s": 100.0, "staleness/max": 3.0}
    match = {"win_rate": 0.5, "win_rate_low": 0.4, "win_rate_high": 0.6}
    summary = {"evaluation": {"before": match, "after": match}}
    found = tool.condense([slow, slow, step, step], summary)
    assert found["tokens_per_s"] == pytest.approx(100.0)
    assert found["update_s"] == pytest.approx(0.75)
    assert found["staleness_max"] == 3.0
    assert found["staleness_of_steps"] == [1.0] * 4


def test_variants_differ_in_name_and_flags(tool):
    variants = [tool.SYNC, tool.TURNS, tool.BOTH, tool.WAITING, *tool.TABLE]
    assert tool.MAIN.label in {each.label for each in tool.TABLE}
    assert len({each.label for each in variants}) == len(variants)
    assert len({(tuple(each.flags), each.num_threads) for each in variants}) == len(variants)
