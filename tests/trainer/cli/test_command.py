"""Which verb reads a command line, and how the command ends."""

import subprocess
import sys

import pytest
from earl_trainer.cli.command import read_command
from earl_trainer.recipes import RECIPES

EARL = "import sys; from earl_trainer.cli import main; main()"


def earl(*arguments, cwd, code=EARL):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("arguments", [(), ("-h",), ("--help",)])
def test_without_a_verb_every_verb_is_shown(arguments, capsys):
    assert read_command(arguments)() == 0

    printed = capsys.readouterr().out
    for usage in ("earl train [RECIPE]", "earl train --resume DIR", "earl profile [RECIPE]",
                  "earl games [ID]", "earl plan dispatch ", "earl plan tp "):  # fmt: skip
        assert printed.count(usage) == 1
    assert max(map(len, printed.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("trian",), "unknown command 'trian'; did you mean 'train'?"),
        (("--seed", "1"), "unknown command '--seed'"),
        (("train", "tictactoe-tini"), "unknown recipe 'tictactoe-tini'"),
        (("games", "a", "b"), "games takes one id at most"),
        (("plan", "x"), "unknown kind of plan 'x'"),
    ],
)
def test_a_verb_reads_the_words_behind_it(arguments, message):
    with pytest.raises(ValueError, match=r"^.*$") as caught:
        read_command(arguments)
    assert str(caught.value).startswith(message)


def test_the_command_ends_with_status_2_and_one_line(tmp_path):
    ended = earl("train", "tictacto-tiny", cwd=tmp_path)

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr == (
        "earl: unknown recipe 'tictacto-tiny'; did you mean 'tictactoe-tiny'? "
        f"(valid: {', '.join(sorted(RECIPES))})\n"
    )


@pytest.mark.parametrize("arguments", [("--help",), ("games",), ("plan", "dispatch", "--help")])
def test_help_and_lists_load_nothing_that_takes_seconds(arguments, tmp_path):
    heavy = ("torch", "transformers", "matplotlib", "ray", "wandb", "earl_dispatch")
    code = (
        "import sys; from earl_trainer.cli.command import read_command; "
        "assert read_command(sys.argv[1:])() == 0; "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    ended = earl(*arguments, cwd=tmp_path, code=code)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "[]"
