"""Compiled Connect Four along games of the rules."""

import numpy as np
from earl_envs.games.connect_four import ConnectFour
from earl_envs.kernels import connect_four
from earl_envs.kernels.rules import RUNNING
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

GAME = ConnectFour()


@njit
def _move(own, other, action):
    return connect_four.move(own, other, action)


@njit
def _show(planes, mask, own, other, legal):
    connect_four.show(planes, 0, 0, own, other)
    connect_four.show_mask(mask, 0, 0, legal, True)


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), max_size=60))
def test_moves_outcomes_and_bytes_agree_with_the_rules(columns):
    state, own, other, num_moves = (0, 0), 0, 0, 0
    for column in columns:
        if column not in GAME.legal(state):
            continue
        seat = GAME.seat(state)
        state = GAME.apply(state, column)
        own, other, legal, outcome = _move(own, other, column)
        num_moves += 1
        ordered = (other, own) if num_moves % 2 else (own, other)
        assert connect_four.RULES.state(*ordered, num_moves) == state
        assert [bit for bit in range(7) if legal >> bit & 1] == GAME.legal(state)
        returns = GAME.returns(state)
        assert outcome == (RUNNING if returns is None else returns[seat])
        planes, mask = np.full(84, 9, np.uint8), np.full(7, 9, np.uint8)
        _show(planes, mask, own, other, legal)
        np.testing.assert_array_equal(planes.reshape(2, 6, 7), GAME.planes(state, 1 - seat))
        assert np.flatnonzero(mask).tolist() == GAME.legal(state)
        assert mask.max(initial=0) <= 1
