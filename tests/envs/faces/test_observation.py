"""Board arrays and masks."""

import numpy as np
import pytest
from earl_envs.faces.observation import action_mask, board_space, observe
from earl_envs.registry import make_game


def test_a_game_with_planes_shows_them_in_a_new_array():
    game = make_game("earl/TicTacToe-v0")
    state = (0b1, 0b10)
    board = observe(game, state, 1, [0, 1])
    assert board.dtype == np.uint8
    assert np.array_equal(board, game.planes(state, 1))
    assert board[0, 0, 1] == 1, "a seat's own stones come first"
    assert not np.shares_memory(board, observe(game, state, 1, [0, 1]))
    assert board in board_space(game)


def test_a_game_without_planes_shows_its_moves():
    game = make_game("faces/LastStone-v0")
    board = observe(game, (6, 0, 1), 0, [2, 1])
    assert board.tolist() == [2, 1, *[-1] * 9]
    assert board in board_space(game)
    assert board_space(game).low.min() == -1
    assert board_space(game).high.max() == game.num_actions - 1


@pytest.mark.parametrize(("legal", "mask"), [((0, 2), [1, 0, 1]), ((), [0, 0, 0])])
def test_a_mask_marks_the_legal_actions(legal, mask):
    marked = action_mask(3, legal)
    assert marked.dtype == np.int8
    assert marked.tolist() == mask
