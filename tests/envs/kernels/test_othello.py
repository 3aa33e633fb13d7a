"""Compiled Othello along games of the rules, and how many games there are."""

import numpy as np
import pytest
from earl_envs.games.othello import PASS, Othello
from earl_envs.kernels import othello
from earl_envs.kernels.bits import signed
from earl_envs.kernels.rules import RUNNING
from numba import njit

GAME = Othello()


@njit
def _move(own, other, action):
    return othello.move(own, other, action)


@njit
def _num_games(own, other, legal, depth):
    # Games of `depth` moves by a stack of positions; a pass counts as a move.
    stack = [(own, other, legal, depth)]
    total = 0
    while stack:
        own, other, legal, depth = stack.pop()
        if depth == 0:
            total += 1
            continue
        for action in range(PASS + 1):
            if othello.is_legal(legal, action):
                first, second, choices, outcome = othello.move(own, other, action)
                if outcome == RUNNING:
                    stack.append((first, second, choices, depth - 1))
                elif depth == 1:
                    total += 1
    return total


@pytest.mark.parametrize(
    ("depth", "num_games"),
    [(1, 4), (2, 12), (3, 56), (4, 244), (5, 1_396), (6, 8_200), (7, 55_092), (8, 390_216)],
)
def test_there_are_as_many_games_as_others_count(depth, num_games):
    # Counted by Aart Bik, https://aartbik.blogspot.com/2009/02/perft-for-reversi.html.
    own, other, legal = othello.RULES.start
    assert _num_games(own, other, legal, depth) == num_games


@pytest.mark.parametrize("seed", range(4))
def test_whole_games_agree_with_the_rules(seed):
    rng = np.random.default_rng(seed)
    state = GAME.initial(rng)
    own, other, legal = othello.RULES.start
    num_moves = 0
    while (choices := GAME.legal(state)) and num_moves < GAME.max_moves:
        assert choices == ([b for b in range(64) if legal >> b & 1] or [PASS])
        action = int(rng.choice(choices))
        state = GAME.apply(state, action)
        own, other, legal, outcome = _move(own, other, action)
        num_moves += 1
        discs = (other, own) if num_moves % 2 else (own, other)
        assert othello.RULES.state(*discs, num_moves) == state
    returns = GAME.returns(state)
    assert returns is not None
    assert outcome == returns[1 - state[2]]


@njit
def _show(planes, mask, own, other, legal, running):
    othello.show(planes, 0, 0, own, other)
    othello.show_mask(mask, 0, 0, legal, running)


def test_bytes_are_the_planes_and_the_mask_with_its_pass():
    planes, mask = np.full(128, 9, np.uint8), np.full(65, 9, np.uint8)
    discs = (1 << 63 | 1 << 5, 1 << 62)
    _show(planes, mask, signed(discs[0]), signed(discs[1]), 1 << 19, True)
    np.testing.assert_array_equal(planes.reshape(2, 8, 8), GAME.planes((*discs, 0), 0))
    assert np.flatnonzero(mask).tolist() == [19]
    for running in (True, False):
        _show(planes, mask, 0, 0, 0, running)
        assert np.flatnonzero(mask).tolist() == ([PASS] if running else [])


@njit
def _is_legal(legal, action):
    return othello.is_legal(legal, action)


def test_pass_is_legal_only_without_another_move():
    assert _is_legal(0, PASS)
    assert not _is_legal(1 << 19, PASS)
    assert _is_legal(signed(1 << 63), 63)
    for action in (-1, 65, 2**40):
        assert not _is_legal(-1, action)
