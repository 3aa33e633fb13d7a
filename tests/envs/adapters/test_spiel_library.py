"""Loading OpenSpiel's games."""

import pytest

pytest.importorskip("pyspiel")

from earl_envs.adapters.spiel_library import load_game, loadable_names


def test_every_listed_game_but_the_largest_loads_and_moves_one_player_at_a_time():
    names = loadable_names()
    assert {"tic_tac_toe", "goofspiel", "python_tic_tac_toe"} < set(names)
    assert not {"misere", "mfg_garnet", "crossword", "python_mfg_crowd_modelling"} & set(names)
    for name in names[::6]:
        assert load_game(name, {}).get_type().dynamics.name == "SEQUENTIAL"


def test_games_are_parameters_of_games():
    game = load_game("repeated_game", {"stage_game": "matrix_rps()", "num_repetitions": 3})
    assert game.max_game_length() == 6
