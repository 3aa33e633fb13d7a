"""Compiled Connect Four against its rules."""

from functools import cache

import numpy as np
import pytest
from earl_envs import make_game
from earl_envs.opponents import connect_four_kernel as kernel
from hypothesis import given, settings
from hypothesis import strategies as st

GAME = make_game("earl/ConnectFour-v0")
COLUMNS = st.lists(st.integers(0, 6), max_size=42)


def played(columns):
    """State after as many of these moves as are legal, stopping before the end."""
    state = (0, 0)
    for column in columns:
        if column in GAME.legal(state):
            following = GAME.apply(state, column)
            if GAME.returns(following) is not None:
                break
            state = following
    return state


def sides(state):
    seat = GAME.seat(state)
    return state[seat], state[0] | state[1]


def cells(columns, taken):
    """Lowest empty cell of each column."""
    return sum(1 << 7 * c + (taken >> 7 * c & 127).bit_count() for c in columns)


@cache
def exact(state):
    """Score of a position by the rules alone."""
    num = sum(stones.bit_count() for stones in state)
    best = -100
    for column in GAME.legal(state):
        following = GAME.apply(state, column)
        returns = GAME.returns(following)
        over = (43 - num) // 2 if returns and any(returns) else 0
        best = max(best, -exact(following) if returns is None else over)
    return best


def memory():
    return np.zeros(1 << 10, np.int64), np.zeros(1 << 14, np.int64), np.zeros((43, 8), np.int64)


@settings(deadline=None, max_examples=40)  # the first example compiles
@given(COLUMNS)
def test_winning_cells_are_those_that_complete_four(columns):
    state = played(columns)
    own, taken = sides(state)
    expected = sum(
        1 << cell
        for cell in range(49)
        if kernel.BOARD >> cell & 1 and not taken >> cell & 1 and brute_four(own | 1 << cell)
    )
    assert kernel.winning_cells(own, taken) == expected


def brute_four(stones):
    lines = [(c, r, dc, dr) for c in range(7) for r in range(6) for dc, dr in STEPS]
    return any(
        all(
            0 <= c + k * dc < 7
            and 0 <= r + k * dr < 6
            and stones >> 7 * (c + k * dc) + r + k * dr & 1
            for k in range(4)
        )
        for c, r, dc, dr in lines
    )


STEPS = ((1, 0), (0, 1), (1, 1), (1, -1))


@settings(deadline=None)  # the first example compiles
@given(st.integers(0, 2**49 - 1))
def test_four_in_a_row_is_seen_wherever_it_is(bits):
    stones = bits & kernel.BOARD
    assert kernel.has_four(stones) == brute_four(stones)


@settings(deadline=None)  # the first example compiles
@given(COLUMNS)
def test_safe_moves_are_those_without_an_answer_that_wins(columns):
    state = played(columns)
    own, taken = sides(state)
    safe = []
    for column in GAME.legal(state):
        following = GAME.apply(state, column)
        replies = [GAME.apply(following, reply) for reply in GAME.legal(following)]
        if not any(any(GAME.returns(reached) or ()) for reached in replies):
            safe.append(column)
    wins = kernel.winning_cells(own, taken) & cells(GAME.legal(state), taken)
    if not wins:  # a move that wins has no answer at all
        assert kernel.safe_moves(own, taken) == cells(safe, taken)


@settings(deadline=None)  # the first example compiles
@given(COLUMNS)
def test_mirroring_twice_is_nothing_and_once_turns_the_columns(columns):
    own, taken = sides(played(columns))
    turned = sides(played([6 - column for column in columns]))
    assert (kernel.mirror(own), kernel.mirror(taken)) == turned
    assert kernel.mirror(kernel.mirror(own)) == own


@pytest.mark.parametrize("num_stones", [31, 33, 35, 38])
def test_scores_and_best_moves_are_exact(random_stones, num_stones):
    for seed in range(5):
        state = random_stones(num_stones, seed)
        own, taken = sides(state)
        assert kernel.solve(own, taken, *memory()) == exact(state)
        best = kernel.optimal_moves(own, taken, *memory())
        assert best == cells(best_columns(state), taken)


def best_columns(state):
    num = sum(stones.bit_count() for stones in state)
    scores = {}
    for column in GAME.legal(state):
        following = GAME.apply(state, column)
        returns = GAME.returns(following)
        over = (43 - num) // 2 if returns and any(returns) else 0
        scores[column] = -exact(following) if returns is None else over
    return [column for column, score in scores.items() if score == max(scores.values())]


@pytest.mark.parametrize("num_stones", [30, 35])
def test_a_window_gives_the_side_that_the_score_is_on(random_stones, num_stones):
    for seed in range(4):
        state = random_stones(num_stones, seed)
        own, taken = sides(state)
        for alpha in range(-7, 7):
            found = kernel.search_window(own, taken, alpha, alpha + 1, *memory())
            assert (found > alpha) == (exact(state) > alpha)
            # A bound never claims more than is true.
            assert found <= exact(state) if found > alpha else found >= exact(state)


def test_moves_are_tried_by_threats_and_then_from_the_centre():
    ordered = np.zeros(8, np.int64)
    assert kernel.order_moves(0, 0, kernel.FLOOR, ordered) == 7
    assert [int(move).bit_length() // 7 for move in ordered[:7]] == [3, 2, 4, 1, 5, 0, 6]
    # Own stones in columns 0 and 1 of the bottom row: column 2 makes a threat at 3.
    own, taken = 1 | 1 << 7, 1 | 1 << 7 | 1 << 1 | 1 << 8
    moves = kernel.safe_moves(own, taken)
    kernel.order_moves(own, taken, moves, ordered)
    assert ordered[0] in (1 << 14, 1 << 21)
