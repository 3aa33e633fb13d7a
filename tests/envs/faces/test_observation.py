"""Board arrays and masks."""

import numpy as np
import pytest
from earl_envs.batch import GameBatch
from earl_envs.end_reason import EndReason
from earl_envs.faces.episode import Episode, Table
from earl_envs.faces.observation import action_mask, board_space, observe
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.registry import make_game


def test_a_game_with_planes_shows_them_in_a_new_array():
    game = make_game("earl/TicTacToe-v0")
    state = (0b1, 0b10)
    empty = np.zeros((2, 3, 3), np.uint8)
    board = observe(game, state, 1, [0, 1], like=empty)
    assert board.dtype == np.uint8
    assert np.array_equal(board, game.planes(state, 1))
    assert board[0, 0, 1] == 1, "a seat's own stones come first"
    assert not np.shares_memory(board, observe(game, state, 1, [0, 1], like=empty))
    assert board in board_space(game)


def test_a_game_without_planes_shows_its_moves():
    game = make_game("faces/LastStone-v0")
    board = observe(game, (6, 0, 1), 0, [2, 1], like=np.zeros(11, np.int32))
    assert board.tolist() == [2, 1, *[-1] * 9]
    assert board in board_space(game)
    assert board_space(game).low.min() == -1
    assert board_space(game).high.max() == game.num_actions - 1


@pytest.mark.parametrize("kind", [np.float64, np.bool_, np.int64, list])
def test_planes_of_another_type_fail_alike_in_every_face(kind):
    class Painted(TicTacToe):
        def planes(self, state, seat):
            planes = super().planes(state, seat)
            return planes.tolist() if kind is list else planes.astype(kind)

    game = Painted()
    table = Table(game_id="", params={}, game=game, board=board_space(game))
    episode = Episode(table, seed=0)
    assert not (episode.observe(0) > 0).any()
    assert episode.end_reason is EndReason.ENV_ERROR
    batch = GameBatch(game, seeds=[0])
    assert np.array_equal(batch.observations[0] > 0, episode.observe(0) > 0)
    assert batch.failed[0] == episode.detail
    assert "planes() must always be" in episode.detail


@pytest.mark.parametrize(("legal", "mask"), [((0, 2), [1, 0, 1]), ((), [0, 0, 0])])
def test_a_mask_marks_the_legal_actions(legal, mask):
    marked = action_mask(3, legal)
    assert marked.dtype == np.int8
    assert marked.tolist() == mask
