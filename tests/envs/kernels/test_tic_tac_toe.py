"""Compiled Tic-Tac-Toe in every position of the game."""

import numpy as np
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.kernels import tic_tac_toe
from earl_envs.kernels.rules import RUNNING
from numba import njit

GAME = TicTacToe()


@njit
def _move(own, other, action):
    return tic_tac_toe.move(own, other, action)


def test_every_move_of_every_position_agrees_with_the_rules():
    seen, frontier = {(0, 0)}, [(0, 0)]
    while frontier:
        state = frontier.pop()
        seat = GAME.seat(state)
        for action in GAME.legal(state):
            reached = GAME.apply(state, action)
            own, other, legal, outcome = _move(state[seat], state[1 - seat], action)
            assert (own, other) == (reached[1 - seat], reached[seat])
            assert [cell for cell in range(9) if legal >> cell & 1] == GAME.legal(reached)
            returns = GAME.returns(reached)
            assert outcome == (RUNNING if returns is None else returns[seat])
            if reached not in seen:
                seen.add(reached)
                frontier.append(reached)
    assert len(seen) == 5_478


@njit
def _show(planes, mask, own, other, legal):
    tic_tac_toe.show(planes, 0, 0, own, other)
    tic_tac_toe.show_mask(mask, 0, 0, legal, True)


def test_bytes_are_the_planes_and_the_mask():
    planes, mask = np.full(18, 9, np.uint8), np.full(9, 9, np.uint8)
    _show(planes, mask, 0b000_010_001, 0b100_000_010, 0b011_101_100)
    state = (0b000_010_001, 0b100_000_010)
    np.testing.assert_array_equal(planes.reshape(2, 3, 3), GAME.planes(state, 0))
    assert np.flatnonzero(mask).tolist() == GAME.legal(state)
    assert mask.max() == 1
