"""OpenSpiel's tensors as arrays of planes, rows and columns."""

import numpy as np
import pytest
from earl_envs.adapters.spiel_tensor import as_bytes, board_of, stay_bytes

pyspiel = pytest.importorskip("pyspiel")


def board(name, moves, seat):
    game = pyspiel.load_game(name)
    state = game.new_initial_state()
    for move in moves:
        state.apply_action(move)
    return board_of(game, state, seat)


def test_a_board_keeps_its_planes_rows_and_columns():
    # OpenSpiel: empty cells, then those of player 1 and of player 0.
    planes = board("tic_tac_toe", [4, 0], 0)
    assert planes.shape == (3, 3, 3)
    assert planes[2].tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert planes[1].tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert planes[0].tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 1]]


def test_a_vector_is_one_plane_of_one_row():
    first, second = (board("kuhn_poker", [2, 0, 1], seat) for seat in (0, 1))
    assert first.shape == (1, 1, 7)
    assert not np.array_equal(first, second)


def test_planes_come_first_whatever_the_library_stores():
    class Layout:
        name = "HWC"

    class Kind:
        provides_observation_tensor = True

    class Hwc:
        get_type = staticmethod(Kind)
        observation_tensor_shape = staticmethod(lambda: [2, 3, 4])
        observation_tensor_layout = staticmethod(Layout)
        observation_tensor = staticmethod(lambda seat: list(range(24)))

    assert board_of(Hwc, Hwc, 0)[3].tolist() == [[3, 7, 11], [15, 19, 23]]


def test_only_whole_numbers_that_fit_are_bytes():
    assert as_bytes(np.array([0.0, 1.0, 255.0], np.float32)).tolist() == [0, 1, 255]
    for value in (0.5, -1.0, 256.0, np.nan, np.inf):
        assert as_bytes(np.array([1.0, value], np.float32)) is None


def test_boards_of_ones_are_judged_by_the_first_and_counts_by_all():
    ones, counts, beyond = (np.array([value], np.float32) for value in (1, 2, 256))
    assert stay_bytes([ones, ones, beyond], num_probed=2)
    assert not stay_bytes([ones, ones, beyond], num_probed=3)
    assert not stay_bytes([ones, counts, ones, beyond], num_probed=2)
    assert stay_bytes([ones, counts, ones, counts], num_probed=2)
    assert not stay_bytes([ones, None], num_probed=2)
