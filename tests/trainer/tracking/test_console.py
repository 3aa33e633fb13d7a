"""What a person watching reads."""

import io
import re
import time
from dataclasses import replace

import pytest
from earl_trainer.tracking.console import (
    EtaClock,
    LineDisplay,
    LiveDisplay,
    describe_match,
    format_duration,
    make_display,
)
from rich.console import Console

FIGURES = {
    "reward": "-0.37",
    "win": "41%",
    "draw": "13%",
    "loss": "46%",
    "illegal": "7.2%",
    "ctx mean": "47",
    "ctx max": "63",
    "resident": "12,345",
    "cut": "2%",
    "tp": "1",
    "kl": "0.0123",
    "clip": "3.4%",
    "grad": "1.27",
}
RATES = "rollout 5,432, prepare 98,765, update 2,110"


@pytest.fixture
def lines():
    out = io.StringIO()
    console = Console(file=out, width=240, soft_wrap=True, highlight=False)
    return LineDisplay(console, EtaClock({"warmup": 4, "rl": 6})), out


@pytest.fixture(params=[80, 100, 180])
def live(request):
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=request.param, height=50)
    display = LiveDisplay(
        console, {"warmup": 4, "rl": 6}, EtaClock({"warmup": 4, "rl": 6}), first_step=5
    )
    yield display, out
    display.close()


def without_escapes(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def last_picture(live):
    display, out = live
    display._live.refresh()
    return without_escapes(out.getvalue()).rsplit("step", 1)[1]


def test_a_step_is_one_line_with_every_figure(lines, make_record):
    display, out = lines
    display.log_step(make_record())

    (line,) = out.getvalue().splitlines()
    assert line.startswith("rl 7 | ")
    for title, value in FIGURES.items():
        assert f"| {title} {value}" in line
    assert "| tp 1 (only degree: holds 5 of 9 tokens) |" in line
    assert f"tok/s {RATES}" in line
    assert line.endswith("eta 0:06")


def test_a_limit_that_is_near_stands_behind_the_reason(lines, make_record):
    display, out = lines
    display.log_step(replace(make_record(), limit_notice="contexts fill the memory soon"))

    reason = "only degree: holds 5 of 9 tokens; contexts fill the memory soon"
    assert f"| tp 1 ({reason}) |" in out.getvalue()


def test_the_live_picture_announces_a_limit_only_while_it_is_near(live, make_record):
    display, _ = live
    display.log_step(replace(make_record(5), limit_notice="contexts fill the memory soon"))
    assert "contexts fill the memory soon" in last_picture(live)
    display.log_step(make_record(6))
    assert "contexts fill" not in last_picture(live)


def test_a_figure_that_a_step_lacks_is_a_dash(lines, make_record):
    display, out = lines
    display.log_step(
        make_record(phase="warmup", without=("policy/kl", "rate/prepare_tokens_per_s"))
    )

    assert "| kl - |" in out.getvalue()
    assert "tok/s rollout 5,432, update 2,110 |" in out.getvalue()


def test_notes_and_matches_are_lines_and_stages_are_not(lines, match):
    display, out = lines
    display.stage("rollout", "5 games running")
    display.note("a [bold]folder[/bold] named [x]")
    display.log_evaluation("after", 10, match)
    display.close()

    assert out.getvalue().splitlines() == [
        "a [bold]folder[/bold] named [x]",
        describe_match("after", match),
    ]


def test_a_match_is_put_into_one_line(match):
    assert describe_match("after", match) == (
        "evaluation after: 61.3% won [56.4%, 65.9%], 12.5% drawn, 26.1% lost of 400 games; "
        "0.8% of replies illegal"
    )


def test_the_live_table_holds_every_figure_and_the_bars_where_the_run_stands(live, make_record):
    display, _ = live
    display.log_step(make_record(5))
    display.stage("update", "3/8 tokens")
    display.log_step(make_record(6))
    picture = last_picture(live)

    for title in ("reward", "win", "draw", "loss", "ill", "ctx", "max", "in use", "cut", "grad"):
        assert f" {title} " in f" {picture.splitlines()[0]} "
    for value in (*FIGURES.values(), "7"):
        assert f" {value} " in f" {picture.splitlines()[2].rstrip()} "
    assert "…" not in picture
    assert "tp 1: only degree: holds 5 of 9 tokens" in picture
    assert f"tokens/s: {RATES}" in picture
    assert "eta 0:06" in picture
    assert "4/4" in picture
    assert "3/6" in picture
    assert "update 3/8 tokens" in picture


def test_the_live_table_keeps_the_latest_steps(live, make_record):
    display, _ = live
    for step in range(20, 40):
        display.log_step(make_record(step))
    picture = last_picture(live)

    steps = [line.split()[0] for line in picture.splitlines()[1:13]]
    assert steps == [str(number) for number in range(29, 41)]


def test_notes_and_matches_stand_above_the_live_table(live, make_record, match):
    display, out = live
    display.log_step(make_record())
    display.note("a [bold]note")
    display.log_evaluation("before", 4, match)
    text = without_escapes(out.getvalue())

    assert text.rindex("a [bold]note") < text.rindex("reward")
    assert text.rindex("evaluation before") < text.rindex("reward")


def test_time_left_comes_from_the_recent_steps_of_the_phase(make_record):
    clock = EtaClock({"warmup": 50, "rl": 50})
    slow = {"time/step_s": 4.0}
    assert clock.tick(make_record(0, phase="warmup", **slow)) == "3:16 + rl"
    assert clock.tick(make_record(1, phase="warmup")) == "2:24 + rl"
    assert clock.tick(make_record(50)) == "1:38", "another phase has another pace"
    for step in range(51, 70):
        clock.tick(make_record(step, **slow))
    assert clock.tick(make_record(90, **slow)) == "0:36"
    assert clock.tick(make_record(99)) == "0:00"


def test_matches_that_are_still_to_come_take_what_the_last_one_took(make_record):
    clock = EtaClock({"rl": 100}, num_matches=100)
    clock.hear_of("match")
    time.sleep(0.05)
    clock.hear_of("match")
    clock.end_match()
    assert "0:05" <= clock.tick(make_record(99)) < "1:00"
    for _ in range(99):
        clock.end_match()
    assert clock.tick(make_record(99)) == "0:00", "the last one is played"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0:00"), (0.4, "0:00"), (59.6, "1:00"), (61.0, "1:01"), (3599.0, "59:59"),
        (3600.0, "1:00:00"), (90061.0, "25:01:01"),
    ],
)  # fmt: skip
def test_durations_are_read_at_a_glance(seconds, text):
    assert format_duration(seconds) == text


def test_without_a_terminal_the_display_is_lines(capsys, make_record):
    display = make_display({"warmup": 4, "rl": 6}, first_step=0, num_matches=3)
    assert isinstance(display, LineDisplay)
    display.log_step(replace(make_record(), decision="a " + "long " * 60 + "reason"))

    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("eta 0:06")


AHEAD = {
    "staleness/mean": 1.26,
    "staleness/max": 3.0,
    "async/running_groups": 20.0,
    "async/queued_groups": 4.0,
}


def test_a_run_that_plays_ahead_says_how_far_and_another_says_nothing_of_it(
    lines, live, make_record
):
    record = make_record(5)
    ahead = replace(record, metrics={**record.metrics, **AHEAD})
    expected = "updates behind: 1.3, at most 3; 20 groups running, 4 waiting"
    display, out = lines
    display.log_step(record)
    assert "updates behind" not in out.getvalue()
    display.log_step(ahead)
    assert f"| {expected} |" in out.getvalue()
    live[0].log_step(ahead)
    assert expected in last_picture(live)
