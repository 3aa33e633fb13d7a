"""Questions to one solver after another."""

import time

import numpy as np
import pytest
from earl_envs import make_game
from earl_envs.opponents.connect_four_solver import (
    ConnectFourSolver,
    columns_of,
    lookahead_columns,
)

GAME = make_game("earl/ConnectFour-v0")


def sides(state):
    seat = GAME.seat(state)
    return state[seat], state[0] | state[1]


def test_answers_do_not_depend_on_earlier_questions(random_stones):
    shared = ConnectFourSolver(shallow_bits=8, deep_bits=10)  # small: entries replace one another
    for seed in range(6):
        position = sides(random_stones(24, seed))
        fresh = ConnectFourSolver(shallow_bits=8, deep_bits=16)
        score = fresh.score(*position)
        assert shared.score(*position) == score
        assert shared.is_above(*position, score=score - 1)
        assert not shared.is_above(*position, score=score)
        assert shared.optimal_columns(*position) == fresh.optimal_columns(*position)


def test_best_columns_lead_to_the_score(random_stones):
    solver = ConnectFourSolver()
    for seed in range(6):
        state = random_stones(22, seed)
        score, best = solver.score(*sides(state)), solver.optimal_columns(*sides(state))
        for column in GAME.legal(state):
            following = GAME.apply(state, column)
            if GAME.returns(following) is None:
                reached = -solver.score(*sides(following))
                assert (reached == score) == (column in best)
                assert reached <= score
            else:
                assert column in best


def test_a_question_that_is_asked_again_costs_next_to_nothing(random_stones):
    solver, position = ConnectFourSolver(), sides(random_stones(16, 1))
    solver.score(*position)
    first = solver.num_searched
    solver.score(*position)
    assert first > 1_000
    assert solver.num_searched - first < first / 10


def test_looks_ahead_for_the_seat_that_moves():
    # Seat 0 holds the bottom of columns 0 to 2, seat 1 is on top of it.
    stones = (0b1_0000001_0000001, 0b10_0000010)
    assert lookahead_columns(stones, 1, depth=2) == [3]


@pytest.mark.parametrize(
    ("num_stones", "depth"),
    [(20, 1), (20, 2), (20, 3), (30, 4), (35, 5), (35, 6), (35, 7), (38, 4)],
)
def test_looks_as_far_ahead_as_search_without_pruning(random_stones, num_stones, depth):
    for seed in range(4):
        state = random_stones(num_stones, seed)
        assert lookahead_columns(state, GAME.seat(state), depth=depth) == best(state, depth)


def test_a_worse_column_that_was_cut_off_is_not_taken_for_an_equal_one():
    state = (26769828708359, 250830951432376)
    assert lookahead_columns(state, GAME.seat(state), depth=4) == best(state, 4)


def best(state, depth):
    values = {a: -plain(GAME.apply(state, a), depth - 1) for a in GAME.legal(state)}
    return [action for action, value in values.items() if value == max(values.values())]


def plain(state, depth):
    """Value for the side to move: the depth left when somebody wins, 0 if nobody does."""
    returns = GAME.returns(state)
    if returns is not None:
        return -(depth + 1) if any(returns) else 0
    if depth == 0:
        return 0
    return max(-plain(GAME.apply(state, action), depth - 1) for action in GAME.legal(state))


def test_columns_of_a_mask():
    assert columns_of(1 | 1 << 12 | 1 << 47) == [0, 1, 6]


@pytest.mark.slow
def test_ten_stones_take_less_than_a_second_in_the_median(random_stones):
    times_s = []
    for seed in range(9):
        position = sides(random_stones(10, seed))
        solver = ConnectFourSolver()
        start_s = time.process_time()
        solver.optimal_columns(*position)
        times_s.append(time.process_time() - start_s)
    assert np.median(times_s) < 1.0
