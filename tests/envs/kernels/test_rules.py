"""Constants of compiled rules, against the games."""

import numpy as np
import pytest
from earl_envs import Game
from earl_envs.games.connect_four import ConnectFour
from earl_envs.games.othello import Othello
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.kernels import connect_four, othello, tic_tac_toe
from earl_envs.kernels.rules import KernelRules

RULES = [
    (TicTacToe(), tic_tac_toe.RULES),
    (ConnectFour(), connect_four.RULES),
    (Othello(), othello.RULES),
]


@pytest.mark.parametrize(("game", "rules"), RULES)
def test_constants_are_those_of_the_game(game: Game, rules: KernelRules):
    start = game.initial(np.random.default_rng(0))
    planes = game.planes(start, 0)
    assert planes is not None
    assert rules.planes_shape == planes.shape
    assert (rules.num_actions, rules.max_moves) == (game.num_actions, game.max_moves)
    own, other, legal = rules.start
    assert rules.state(own, other, 0) == start
    assert [bit for bit in range(64) if legal >> bit & 1] == game.legal(start)
