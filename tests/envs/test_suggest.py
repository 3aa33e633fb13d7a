"""The message for unknown names."""

import pytest
from earl_envs import suggest

NAMES = ["earl/TicTacToe-v0", "earl/ConnectFour-v0"]


def test_message_names_value_nearest_and_all_valid_in_one_line():
    assert suggest("earl/TicTacTo-v0", NAMES, what="game") == (
        "unknown game 'earl/TicTacTo-v0'; did you mean 'earl/TicTacToe-v0'? "
        "(valid: earl/ConnectFour-v0, earl/TicTacToe-v0)"
    )


@pytest.mark.parametrize("value", ["tictactoe", "TICTACTOE-V0", "earl/tictactoe-v0"])
def test_case_and_missing_namespace_do_not_hide_the_nearest(value):
    assert "did you mean 'earl/TicTacToe-v0'?" in suggest(value, NAMES, what="game")


def test_no_guess_when_nothing_is_near():
    assert suggest("zzz", ["random"], what="opponent") == "unknown opponent 'zzz' (valid: random)"


def test_control_characters_cannot_break_the_line():
    assert "\n" not in suggest("a\nb", NAMES, what="game")
