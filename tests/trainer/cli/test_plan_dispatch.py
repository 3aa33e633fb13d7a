"""Which transfers are compared, and what is said when options do not fit."""

import re

import pytest
from earl_trainer.cli.plan_dispatch import read_plan_dispatch


@pytest.fixture
def printed(capsys):
    def run(*arguments):
        assert read_plan_dispatch(arguments)() == 0
        return capsys.readouterr().out

    return run


def titles(text):
    return re.findall(r"^(EARL .*|\d+ hosts .*)$", text, re.MULTILINE)


def row(text, label):
    (line,) = re.findall(rf"^{re.escape(label)}  (.*)$", text, re.MULTILINE)
    return line.split()


FIGURE = "EARL figure 4: 16 hosts x 8 ranks at 200 Gbps"
TABLES = [f"EARL table 1: 128 hosts (1,024 GPUs) at {gbps} Gbps" for gbps in (25, 200)]


def test_both_replays_are_the_default_and_each_can_be_had_alone(printed):
    assert titles(printed()) == [FIGURE, *TABLES]
    assert titles(printed("--figure-4")) == [FIGURE]
    assert titles(printed("--table-1")) == TABLES
    assert titles(printed("--gbps", "100")) == [
        FIGURE.replace("200", "100"), TABLES[0].replace("25", "100")
    ]  # fmt: skip


def test_the_papers_ratios_stand_below_the_simulated_ones_without_a_fit(printed):
    text = printed("--figure-4", "--latency-us", "0")
    assert row(text, "gather_scatter / all_to_all") == ["32.0"] * 3
    assert row(text, "measured in the paper") == ["9.7", "11.0", "11.2"]
    assert "the topology allows 2M times" in text
    assert "9.7 to 11.2 times" in text


def test_latency_counts_and_is_said(printed):
    assert row(printed("--figure-4", "--latency-us", "100"), "gather_scatter / all_to_all") != (
        row(printed("--figure-4"), "gather_scatter / all_to_all")
    )
    assert "10\nus for each message" in printed("--figure-4")


def test_a_cluster_of_ones_own(printed):
    text = printed("--hosts", "4", "--mib-per-worker", "100", "--gbps", "10", "--latency-us", "0")
    assert titles(text) == ["4 hosts x 8 ranks at 10 Gbps"]
    # A host holds 800 MiB and sends three quarters of it at 1.25 GB/s.
    assert float(*row(text, "floor, s")) == pytest.approx(0.75 * 800 * 2**20 / 1.25e9, rel=1e-3)
    assert row(text, "pipelined / all_to_all") == ["4.0"]
    assert "measured" not in text
    same = printed(
        "--hosts", "4", "--ranks-per-host", "2", "--total-mib", "3200", "--gbps", "10",
        "--latency-us", "0",
    )  # fmt: skip
    assert row(same, "floor, s") == row(text, "floor, s")
    assert row(same, "MiB of each rank") == ["400"]


def test_a_picture_is_drawn_of_what_is_printed(printed, tmp_path):
    target = tmp_path / "plan.png"
    printed("--hosts", "2", "--total-mib", "1", "--plot", str(target))
    assert target.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--figure-4", "--table-1"), "--table-1: not allowed with argument --figure-4"),
        (("--figure-4", "--hosts", "4"), "--hosts: not allowed with argument --figure-4"),
        (("--hosts", "4"), "--hosts needs --mib-per-worker or --total-mib"),
        (("--mib-per-worker", "4"), "--mib-per-worker is about a cluster of your own: give --h"),
        (("--ranks-per-host", "4"), "--ranks-per-host is about a cluster of your own: give --h"),
        (("--hosts", "4", "--total-mib", "1", "--mib-per-worker", "1"), "--mib-per-worker: not"),
        (("--hosts", "1", "--total-mib", "1"), "a scenario needs 2 hosts or more"),
        (("--hosts", "2000", "--total-mib", "1"), "hosts^2 x ranks per host must be <="),
        (("--hosts", "2", "--total-mib", "1e-9"), "a scenario needs 2 hosts or more"),
        (("--hosts", "x", "--total-mib", "1"), "--hosts: must be a whole number >= 1, got 'x'"),
        (("--gbps", "0"), "--gbps: must be a number > 0, got '0'"),
        (("--latency-us", "-1"), "--latency-us: must be a number >= 0, got '-1'"),
        (("--figure-4", "--plot", "/no/such/x.png"), "cannot write the picture '/no/such/x.png'"),
        (("--figure-4", "--plot", "x.doc"), "Format 'doc' is not supported"),
        (("--figure-5",), "unknown option '--figure-5'; did you mean '--figure-4'?"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_line(arguments, message):
    with pytest.raises(ValueError, match=r".") as caught:
        read_plan_dispatch(arguments)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_the_help_says_units_and_defaults(printed):
    text = " ".join(printed("--help").split())
    for words in (
        "10^9 bits/s (default: 200; table 1: 25 and 200)",
        "in microseconds (default: 10)",
        "(default: 8)",
        "--mib-per-worker MIB",
    ):
        assert words in text
