"""Tic-Tac-Toe against brute force over the whole game."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from earl_envs.games.tic_tac_toe import Stones, TicTacToe

GAME = TicTacToe()
START = GAME.initial(np.random.default_rng(0))


@pytest.fixture(scope="module")
def positions() -> list[Stones]:
    seen, frontier = {START}, [START]
    while frontier:
        state = frontier.pop()
        for action in GAME.legal(state):
            reached = GAME.apply(state, action)
            if reached not in seen:
                seen.add(reached)
                frontier.append(reached)
    return sorted(seen)


@cache
def _num_endings(state: Stones) -> tuple[int, int, int]:
    returns = GAME.returns(state)
    if returns is not None:
        return (int(returns[0] > 0), int(returns[1] > 0), int(returns[0] == 0))
    totals = zip(*(_num_endings(GAME.apply(state, a)) for a in GAME.legal(state)), strict=True)
    first, second, draw = map(sum, totals)
    return (first, second, draw)


@cache
def _random_play(state: Stones) -> float:
    returns = GAME.returns(state)
    if returns is not None:
        return float(returns[0] > 0)
    return float(np.mean([_random_play(GAME.apply(state, a)) for a in GAME.legal(state)]))


@cache
def _value(state: Stones) -> float:
    returns = GAME.returns(state)
    if returns is not None:
        return returns[0]
    best = max if GAME.seat(state) == 0 else min
    return best(_value(GAME.apply(state, a)) for a in GAME.legal(state))


def _magic_sum_returns(state: Stones) -> tuple[float, float] | None:
    # In the magic square of order 3, three cells add up to 15 exactly when they are a line.
    square = (2, 7, 6, 9, 5, 1, 4, 3, 8)
    for seat, returns in enumerate([(1.0, -1.0), (-1.0, 1.0)]):
        own = [square[cell] for cell, mark in enumerate(_cells(state, seat)) if mark == "X"]
        if any(sum(three) == 15 for three in combinations(own, 3)):
            return returns
    return None if any(mark.isdigit() for mark in _cells(state, 0)) else (0.0, 0.0)


def _cells(state: Stones, seat: int) -> list[str]:
    return GAME.text(state, seat).split()


def test_game_tree_has_the_known_size(positions):
    assert len(positions) == 5_478
    assert _num_endings(START) == (131_184, 77_904, 46_080)


def test_returns_agree_with_magic_sums_in_every_position(positions):
    for state in positions:
        assert GAME.returns(state) == _magic_sum_returns(state)


def test_legal_moves_are_the_numbered_cells_until_the_end(positions):
    for state in positions:
        numbered = [int(mark) - 1 for mark in _cells(state, 0) if mark.isdigit()]
        over = GAME.returns(state) is not None
        assert GAME.legal(state) == ([] if over else numbered)


def test_both_seats_see_the_same_board_with_marks_swapped(positions):
    swap = str.maketrans("XO", "OX")
    for state in positions:
        assert GAME.text(state, 1) == GAME.text(state, 0).translate(swap)


def test_seats_alternate_in_every_position(positions):
    for state in positions:
        marks = _cells(state, 0)
        assert GAME.seat(state) == marks.count("X") - marks.count("O")


def test_random_play_wins_for_the_first_seat_in_737_of_1260():
    assert _random_play(START) == pytest.approx(737 / 1260, abs=1e-12)


def test_perfect_play_draws():
    assert _value(START) == 0


def test_text_draws_the_board_for_the_seat_that_looks():
    state = START
    for action in (1, 3):
        state = GAME.apply(state, action)
    assert GAME.text(state, 0) == "1 X 3\nO 5 6\n7 8 9"
    assert GAME.text(state, 1) == "1 O 3\nX 5 6\n7 8 9"


def test_planes_show_own_stones_first_in_every_position(positions):
    for state in positions:
        for seat in (0, 1):
            marks = np.array(_cells(state, seat)).reshape(3, 3)
            np.testing.assert_array_equal(GAME.planes(state, seat), [marks == "X", marks == "O"])


def test_planes_are_not_shared():
    GAME.planes(START, 0)[...] = 7
    assert GAME.planes(START, 0).max() == 0


def test_legal_lists_are_not_shared():
    GAME.legal(START).clear()
    assert GAME.legal(START) == list(range(9))


def test_rules_name_a_move_as_moves_are_written():
    assert GAME.move_name(START, 4) in GAME.rules()
