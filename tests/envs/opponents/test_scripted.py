"""Opponents that follow a script."""

import numpy as np
import pytest
from earl_envs import make_game
from earl_envs.opponents.scripted import FirstLegal, ScriptedOpponent

GAME, RNG = make_game("earl/TicTacToe-v0"), np.random.default_rng(0)


def test_a_list_is_followed_in_its_order_as_far_as_it_is_legal():
    opponent = ScriptedOpponent([8, 4, 0])
    assert opponent.move(GAME, (0, 0), 0, RNG) == 8
    assert opponent.move(GAME, (1 << 8, 1), 0, RNG) == 4


def test_a_list_that_has_run_out_is_an_error():
    with pytest.raises(ValueError, match=r"no scripted action is legal: \[0, 1\], legal are \[2,"):
        ScriptedOpponent.from_text("0,1").move(GAME, (1, 2), 0, RNG)


def test_a_function_sees_game_state_seat_and_chance():
    seen = []
    opponent = ScriptedOpponent(lambda *arguments: seen.append(arguments) or 5)
    assert opponent.move(GAME, (1, 0), 1, RNG) == 5
    assert seen == [(GAME, (1, 0), 1, RNG)]


def test_first_legal_is_the_lowest_number():
    assert FirstLegal().move(GAME, (0b101, 0b010), 1, RNG) == 3
