"""Which kinds of plan there are."""

import pytest
from earl_trainer.cli.plan import KINDS, USAGE, read_plan


@pytest.mark.parametrize("arguments", [(), ("-h",), ("--help",)])
def test_without_a_kind_every_kind_is_named(arguments, capsys):
    assert read_plan(arguments)() == 0
    printed = capsys.readouterr().out
    assert all(line in printed for line in USAGE)
    assert len(USAGE) == len(KINDS)
    assert all(f"earl plan {kind} " in printed for kind in KINDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dispatch", "--gbp", "1"), r"^unknown option '--gbp'; did you mean '--gbps'\?"),
        (("tp", "--model", "x", "--respones", "1"), r"did you mean '--responses'\?"),
    ],
)
def test_a_kind_reads_the_words_behind_it(arguments, message):
    with pytest.raises(ValueError, match=message):
        read_plan(arguments)


def test_an_unknown_kind_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="unknown kind of plan 'dispach'; did you mean 'dispatch'"):
        read_plan(["dispach"])
