"""The list of games, and one of them."""

import pytest
from earl_envs import game_ids, make_game
from earl_trainer.cli import games
from earl_trainer.cli.games import read_games


def test_games_lists_every_game_in_columns(capsys):
    assert read_games([])() == 0
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


@pytest.mark.parametrize("gone", ["gone/Game-v0", "gone/" + "VeryLongName" * 6 + "-v0"])
def test_a_game_that_cannot_be_made_does_not_hide_the_others(capsys, monkeypatch, gone):
    monkeypatch.setattr(games, "game_ids", lambda: ["earl/TicTacToe-v0", gone])

    assert read_games([])() == 0
    header, tic_tac_toe, broken = capsys.readouterr().out.split("\n\n")[0].splitlines()
    width = max(len("earl/TicTacToe-v0"), len(gone))
    assert broken.startswith(f"{gone.ljust(width)}  ValueError: unknown game {gone!r}")
    assert tic_tac_toe.startswith("earl/TicTacToe-v0".ljust(width) + "      2")
    assert header.index("seats") == width + 2


def test_what_a_broken_game_says_takes_one_line(capsys, monkeypatch):
    def make(game_id):
        raise RuntimeError("first\n  second")

    monkeypatch.setattr(games, "make_game", make)
    monkeypatch.setattr(games, "game_ids", lambda: ["a/B-v0"])

    assert read_games([])() == 0
    _, broken = capsys.readouterr().out.split("\n\n")[0].splitlines()
    assert broken.startswith("a/B-v0  RuntimeError: first second")


def test_one_game_is_shown_with_its_rules_and_a_board(capsys):
    assert read_games(["earl/TicTacToe-v0"])() == 0

    head, rules, board = capsys.readouterr().out.rstrip("\n").split("\n\n")
    assert head == "earl/TicTacToe-v0: 2 seats, 9 actions, at most 9 moves, solved value 0 0"
    assert rules == make_game("earl/TicTacToe-v0").rules()
    assert board == "1 2 3\n4 5 6\n7 8 9"


def test_the_help_says_what_an_id_does(capsys):
    assert read_games(["--help"])() == 0
    assert capsys.readouterr().out.startswith("usage: earl games [ID]\n\nWithout ID, lists all")


def test_games_takes_one_known_id():
    with pytest.raises(ValueError, match=r"^games takes one id at most, got 'b' as well$"):
        read_games(["a", "b"])
    with pytest.raises(ValueError, match="did you mean 'earl/TicTacToe-v0'"):
        read_games(["earl/TicTacTo-v0"])
