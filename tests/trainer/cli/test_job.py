"""What a read command line turns into."""

import pytest
from earl_trainer.cli.job import printing, wants_help


def test_a_text_is_printed_only_when_the_job_is_done(capsys):
    job = printing("a\nb\n")
    assert capsys.readouterr().out == ""
    assert job() == 0
    assert capsys.readouterr().out == "a\nb\n"


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [((), False), (("x", "--help"), True), (("-h",), True), (("--helpful", "help"), False)],
)
def test_help_is_asked_for_by_either_flag_anywhere(arguments, wanted):
    assert wants_help(arguments) is wanted
