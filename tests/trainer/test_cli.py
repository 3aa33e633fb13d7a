"""What a command line means, and what is said when it means nothing."""

import subprocess
import sys

import pytest
from earl_envs import game_ids, make_game
from earl_trainer import cli
from earl_trainer.cli import read_command
from earl_trainer.overrides import describe_fields, to_tree
from earl_trainer.recipes import RECIPES


def refusal(*arguments):
    with pytest.raises(ValueError, match=r".") as caught:
        read_command(arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("arguments", [(), ("-h",), ("--help",)])
def test_without_a_verb_the_usage_is_printed(arguments, capsys):
    assert read_command(arguments)() == 0

    assert "usage: earl train [RECIPE]" in capsys.readouterr().out


def test_the_help_of_train_lists_every_recipe_and_field_with_default_and_meaning(capsys):
    assert read_command(["train", "tictactoe-tiny", "--help"])() == 0
    printed = capsys.readouterr().out

    for recipe in RECIPES:
        assert recipe in printed
    for name, default, text in describe_fields():
        assert f"  --{name.replace('_', '-')} ({default})\n      {text}\n" in printed


def test_games_lists_every_game_in_columns(capsys):
    assert read_command(["games"])() == 0
    header, *rows = capsys.readouterr().out.split("\n\n")[0].splitlines()

    assert header.split("  ")[0] == "game"
    assert [row.split()[0] for row in rows] == game_ids()
    # Other tests of this process may have registered games that cannot be made.
    for row in [row for row in rows if row.startswith("earl/")]:
        game = make_game(row.split()[0])
        facts = [row[: header.index(name) + len(name)].split()[-1]
                 for name in ("seats", "actions", "max moves")]  # fmt: skip
        assert facts == [str(game.num_seats), str(game.num_actions), str(game.max_moves)]
    (tic_tac_toe,) = (row for row in rows if row.startswith("earl/TicTacToe-v0"))
    assert tic_tac_toe.endswith(" 0 0")
    (breakthrough,) = (row for row in rows if row.startswith("earl/Breakthrough-v0"))
    assert breakthrough.endswith(" -")


def test_a_game_that_cannot_be_made_does_not_hide_the_others(capsys, monkeypatch):
    monkeypatch.setattr(cli, "game_ids", lambda: ["earl/TicTacToe-v0", "gone/Game-v0"])

    assert read_command(["games"])() == 0
    printed = capsys.readouterr().out
    assert "earl/TicTacToe-v0      2" in printed
    assert "gone/Game-v0       ValueError: unknown game 'gone/Game-v0'" in printed


def test_one_game_is_shown_with_its_rules_and_a_board(capsys):
    assert read_command(["games", "earl/TicTacToe-v0"])() == 0

    head, rules, board = capsys.readouterr().out.rstrip("\n").split("\n\n")
    assert head == "earl/TicTacToe-v0: 2 seats, 9 actions, at most 9 moves, solved value 0 0"
    assert rules == make_game("earl/TicTacToe-v0").rules()
    assert board == "1 2 3\n4 5 6\n7 8 9"


def test_games_takes_one_known_id():
    assert refusal("games", "a", "b") == "games takes one id at most, got 'b' as well"
    assert refusal("games", "earl/TicTacTo-v0").startswith(
        "unknown game 'earl/TicTacTo-v0'; did you mean 'earl/TicTacToe-v0'?"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("trian",), "unknown command 'trian'; did you mean 'train'?"),
        (("--seed", "1"), "unknown command '--seed'"),
        (("train", "tictactoe-tini"), "unknown recipe 'tictactoe-tini'; did you mean 'tictactoe-"),
        (("train", "--recipe", "tictactoe-tini"), "unknown recipe 'tictactoe-tini'; did you mean"),
        (("train", "--sed", "1"), "unknown field 'sed'; nearest: seed"),
        (("train", "--seed"), "--seed needs a value"),
        (("train", "--seed", "x"), "seed: "),
        (("train", "tictactoe-tiny", "extra"), "expected a --field, got 'extra'"),
        (("train", "--config", "/no/such.yaml"), "cannot read the config '/no/such.yaml'"),
        (("train", "--config.x", "1"), "--config takes a path and has no fields"),
        (("train", "--run-dir.x", "1"), "--run-dir takes a path and has no fields"),
        (("train", "--resume", "/no/such"), "'/no/such' is no run folder"),
        (("train", "tictactoe-tiny", "--resume", "x"), "--resume goes on with the run in its"),
        (("train", "--resume", "x", "--run-dir", "y"), "--resume goes on with the run in its"),
        (("train", "--env", "earl/Chess-v0"), "unknown game 'earl/Chess-v0'"),
    ],
)
def test_a_command_line_that_means_nothing_is_refused_in_one_line(arguments, message):
    assert refusal(*arguments).startswith(message)


def test_a_recipe_named_by_flag_or_file_is_the_base_of_the_run(tmp_path):
    # Refused for the batch, whose group size of 8 is that of the recipe.
    wrong = ("--rollout.num-episodes", "7")
    message = "rollout.num_episodes must be a multiple of rollout.group_size, got 7 and 8"
    path = tmp_path / "run.yaml"
    path.write_text("recipe: tictactoe-smollm2\n")

    assert refusal("train", "tictactoe-smollm2", *wrong) == message
    assert refusal("train", "--recipe", "tictactoe-smollm2", *wrong) == message
    assert refusal("train", "--config", str(path), *wrong) == message
    assert refusal("train", *wrong).endswith("got 7 and 16")


def test_a_file_lies_over_the_recipe_and_flags_over_the_file(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("rollout: {num_episodes: 9, group_size: 4}\n")

    assert refusal("train", "--config", str(path)).endswith("got 9 and 4")
    assert refusal("train", "--config", str(path), "--rollout.group-size", "5").endswith("9 and 5")


def test_a_refused_run_leaves_no_folder(tmp_path):
    refusal("train", "--run-dir", str(tmp_path / "run"), "--rollout.max-context-tokens", "14")

    assert list(tmp_path.iterdir()) == []


def test_a_run_folder_is_not_run_over(tmp_path):
    (tmp_path / "config.yaml").write_text(str(to_tree(RECIPES["tictactoe-tiny"])))

    assert "already holds a run" in refusal("train", "--run-dir", str(tmp_path))


def test_the_command_ends_with_status_2_and_one_line(tmp_path):
    code = "from earl_trainer.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code, "train", "tictacto-tiny"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr == (
        "earl: unknown recipe 'tictacto-tiny'; did you mean 'tictactoe-tiny'? "
        "(valid: tictactoe-smollm2, tictactoe-tiny)\n"
    )
