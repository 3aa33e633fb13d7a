"""What games of placed stones share, compiled."""

import numpy as np
from earl_envs.kernels import placing
from earl_envs.kernels.rules import RUNNING
from numba import njit


@njit
def _settle(own, other, line, open_cells):
    return placing.settle(own, other, line, open_cells)


@njit
def _is_open(legal, action):
    return placing.is_open(legal, action)


@njit
def _pick(legal, draw):
    return placing.pick_open(legal, draw)


def test_a_line_wins_and_a_full_board_without_one_is_a_draw():
    assert _settle(0b0001, 0b0010, 0, 0b1111) == (0b0010, 0b0001, 0b1100, RUNNING)
    assert _settle(0b0101, 0b0010, 1, 0b1111) == (0b0010, 0b0101, 0, 1)
    assert _settle(0b0101, 0b1010, 4, 0b1111) == (0b1010, 0b0101, 0, 1)
    assert _settle(0b0101, 0b1010, 0, 0b1111) == (0b1010, 0b0101, 0, 0)
    # Cells beyond the open ones do not keep a game running.
    assert _settle(0b0001, 0b0010, 0, 0b0011) == (0b0010, 0b0001, 0, 0)


def test_open_is_what_is_named_whatever_the_number():
    for action in (-(2**63), -1, 9, 64, 73, 2**63 - 1):
        assert not _is_open(511, action)
    assert [action for action in range(9) if _is_open(0b100_000_101, action)] == [0, 2, 8]


def test_draws_are_spread_evenly_over_the_open_moves():
    draws = np.linspace(0, 2**31 - 1, 300).astype(np.int64).tolist()
    picked = [_pick(0b101_0100, draw) for draw in draws]
    assert [picked.count(move) for move in range(9)] == [0, 0, 100, 0, 100, 0, 100, 0, 0]
