"""Boards drawn together against the game's own drawing."""

import numpy as np
import pytest
from earl_envs import make_game
from earl_envs.text.board_text import BoardText, can_draw
from hypothesis import given, settings
from hypothesis import strategies as st

BOARDS = [
    ("earl/TicTacToe-v0", {}),
    ("earl/ConnectFour-v0", {}),
    ("earl/ConnectFour-v0", {"rows": 4, "columns": 5}),
    ("earl/ConnectFour-v0", {"rows": 3, "columns": 11}),
    ("earl/Othello-v0", {}),
]


@pytest.mark.parametrize(("game_id", "params"), BOARDS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_position_of_a_game_looks_as_the_rules_draw_it(game_id, params, seed):
    game, rng = make_game(game_id, **params), np.random.default_rng(seed)
    states = [game.initial(rng)]
    while game.returns(states[-1]) is None:
        states.append(game.apply(states[-1], int(rng.choice(game.legal(states[-1])))))
    views = [(state, seat) for state in states for seat in (0, 1)]
    planes = np.stack([game.planes(state, seat) for state, seat in views])
    assert BoardText(game).draw(planes) == [game.text(state, seat) for state, seat in views]


@pytest.mark.parametrize(("game_id", "params"), BOARDS)
def test_moves_of_drawable_games_have_one_name_in_every_position(game_id, params):
    game, rng = make_game(game_id, **params), np.random.default_rng(0)
    assert can_draw(game)
    names = {}
    for _ in range(5):
        state = game.initial(rng)
        while game.returns(state) is None:
            for action in game.legal(state):
                name = game.move_name(state, action)
                assert names.setdefault(action, name) == name
            state = game.apply(state, int(rng.choice(game.legal(state))))
    assert len(set(names.values())) == len(names)


def test_no_boards_give_no_texts():
    board = BoardText(make_game("earl/TicTacToe-v0"))
    assert board.draw(np.zeros((0, 2, 3, 3), np.uint8)) == []


def test_other_games_are_not_drawn_here():
    assert not can_draw(make_game("earl/Nim-v0"))
