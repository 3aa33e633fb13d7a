"""What `earl plan async` reads, simulates and refuses."""

from math import inf

import pytest
from earl_trainer.cli.plan_async import read_etas, read_lengths, read_plan_async

SMALL = (
    "--num-devices", "4", "--batch-groups", "8", "--group-size", "2", "--median-tokens", "100",
    "--tail-ratio", "4", "--max-tokens", "400", "--slots-per-device", "64", "--decode-ms", "10",
    "--decode-ms-per-sequence", "0.1", "--training-tokens-per-s", "1000", "--publication-s", "0",
    "--num-steps", "20",
)  # fmt: skip


@pytest.fixture
def printed(capsys):
    def run(*arguments):
        assert read_plan_async(arguments)() == 0
        return capsys.readouterr().out

    return run


def rows_of(text):
    return {line.split()[0]: line.split() for line in text.splitlines() if line}


def refusal(*arguments):
    with pytest.raises(ValueError, match=r".") as caught:
        read_plan_async(arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def rate(row):
    return float(row[1].replace(",", ""))


def test_throughput_and_staleness_rise_with_eta(printed):
    rows = rows_of(printed(*SMALL))
    etas = ["0", "1", "2", "4", "8", "16", "inf"]
    assert all(eta in rows for eta in etas)
    assert rate(rows["0"]) < rate(rows["1"]) < rate(rows["4"])
    assert rows["0"][2] == "1.00"
    assert float(rows["0"][4]) == 0 < float(rows["1"][4]) < float(rows["8"][4])


def test_constant_lengths_give_what_can_be_worked_out_by_hand(printed):
    text = printed(
        *SMALL, "--tail-ratio", "1", "--decode-ms-per-sequence", "1", "--num-training-devices", "2",
        "--publication-s", "0.5", "--eta", "0",
    )  # fmt: skip
    # 16 sequences of 100 tokens: 8 on each of two devices, 100 x (10 + 8) ms; 1,600 tokens at 2,000
    # tokens/s; half a second. With all four: 100 x (10 + 4) ms and 4,000 tokens/s.
    row = rows_of(text)["0"]
    assert rate(row) == round(1600 / (1.8 + 0.8 + 0.5))
    assert float(row[3]) == pytest.approx((1.4 + 0.4 + 0.5) / (1.8 + 0.8 + 0.5), abs=0.006)
    assert row[6:8] == [f"{1.3 / 3.1:.1%}", f"{2.3 / 3.1:.1%}"]
    assert "2 rollout and 2 training devices, 8 x 2 sequences of 100 tokens" in text


def test_policies_change_what_is_printed(printed):
    eta = ("--eta", "4", "--tail-ratio", "30", "--max-tokens", "8000")
    plain, strict, waiting = (
        rows_of(printed(*SMALL, *eta, *more))["4"] for more in ((), ("--strict",),
        ("--no-interruption",))
    )  # fmt: skip
    assert int(strict[5]) <= 4 < int(plain[5])
    assert rate(waiting) < 0.8 * rate(plain)


def test_measured_lengths_replace_assumed_ones(printed, tmp_path):
    file = tmp_path / "lengths.txt"
    file.write_text("100 100 100\n\n40 100 10\n")
    text = printed(
        "--num-devices", "4", "--batch-groups", "8", "--lengths", str(file), "--num-steps", "4"
    )
    assert "8 x 3 sequences of 75 tokens" in text
    assert read_lengths(file).groups == ((100, 100, 100), (40, 100, 10))


def test_a_picture_is_drawn_where_it_is_asked_for(printed, tmp_path):
    target = tmp_path / "plan.png"
    printed(*SMALL, "--plot", str(target))
    assert target.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_paper_is_replayed_with_published_figures_beside(printed, tmp_path):
    target = tmp_path / "paper.png"
    text = printed("--paper", "--num-steps", "4", "--plot", str(target))
    assert "356,600" in text
    assert "AReaL table 7" in text
    assert text.count("predicted") == 4 + 5
    assert target.read_bytes().startswith(b"\x89PNG")


def test_etas_are_read_in_order():
    assert read_etas("inf,2,0,2") == (0, 2, inf)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--eta", "1.5"), "--eta: eta is a whole number >= 0 or inf, got '1.5'"),
        (("--eta", "-1"), "--eta: "),
        (("--eta", "1,,2"), "--eta: eta is a whole number >= 0 or inf, got ''"),
        (("--num-devices", "1"), "1 of 1 devices train, so that none is left to generate"),
        (("--num-training-devices", "128"), "128 of 128 devices train, so that none is left"),
        (("--batch-groups", "0"), "--batch-groups: must be a whole number >= 1, got '0'"),
        (("--tail-ratio", "0.5"), "tail_ratio must be >= 1, got 0.5"),
        (("--prompt-share", "2"), "--prompt-share: must be in [0, 1], got '2'"),
        (("--num-steps", "1"), "num_steps must be >= 2, got 1"),
        (
            ("--slots-per-device", "1", "--num-devices", "4", "--group-size", "4"),
            "a group of 4",
        ),
        (("--lengths", "/no/such"), "cannot read lengths from '/no/such'"),
        (("--lengths", "x", "--tail-ratio", "2"), "--tail-ratio is what --lengths says"),
        (("--paper", "--strict"), "--strict is about a run of your own: leave out --paper"),
        (("--paper", "--publication-s", "0"), "--publication-s is about a run of your own"),
        (("--seeed", "1"), "unknown option '--seeed'; did you mean '--seed'?"),
        ((*SMALL, "--plot", "/no/such/x.png"), "cannot write the picture '/no/such/x.png'"),
        ((*SMALL, "--plot", "x.doc"), "Format 'doc' is not supported"),
        ((*SMALL, "--seed", "-1"), "--seed: must be a whole number >= 0, got '-1'"),
    ],
)
def test_what_means_nothing_is_refused_in_one_line(arguments, message):
    assert refusal(*arguments).startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "holds no lengths"), ("1 2\n3 x", "holds 'x' where"), ("1 2\n3", "must be of one size"),
     ("1 0", "measured lengths must be >= 1, got 0")],
)  # fmt: skip
def test_files_without_lengths_are_refused(tmp_path, content, message):
    file = tmp_path / "lengths.txt"
    file.write_text(content)
    assert message in refusal("--lengths", str(file))


def test_the_help_says_units_and_defaults(printed):
    text = " ".join(printed("--help").split())
    for words in ("(default: 8192)", "(default: 27648)", "with blanks between", "(default: 5)"):
        assert words in text
