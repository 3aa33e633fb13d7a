"""Which games have kernels."""

import subprocess
import sys

import pytest
from earl_envs.games.connect_four import ConnectFour
from earl_envs.games.othello import Othello
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.kernels.names import kernel_name


@pytest.mark.parametrize(
    ("game", "name"),
    [
        (TicTacToe(), "tic_tac_toe"),
        (ConnectFour(), "connect_four"),
        (ConnectFour(rows=7), None),
        (ConnectFour(columns=6), None),
        (ConnectFour(connect=3), None),
        (Othello(), "othello"),
        *[(type("Own", (rules,), {})(), None) for rules in (TicTacToe, ConnectFour, Othello)],
    ],
)
def test_kernels_are_for_these_games(game, name):
    assert kernel_name(game) == name


def test_asking_loads_no_compiler():
    code = """
import sys
from earl_envs.games.othello import Othello
from earl_envs.kernels.names import kernel_name
assert kernel_name(Othello()) == "othello"
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
