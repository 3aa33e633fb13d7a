"""Hex against searches over drawn boards, brute force on small ones, and OpenSpiel."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from earl_envs.games.hex import Hex, Stones
from hypothesis import given, settings
from hypothesis import strategies as st

pyspiel = pytest.importorskip("pyspiel")


def play(game: Hex, names: str) -> Stones:
    state = game.initial(np.random.default_rng(0))
    for name in names.split():
        named = [a for a in game.legal(state) if game.move_name(state, a) == f"[{name}]"]
        state = game.apply(state, *named)
    return state


def joins(marks: list[list[str]], mark: str, *, down: bool) -> bool:
    """Search a board of marks cell by cell."""
    size = len(marks)
    board = marks if down else [list(column) for column in zip(*marks, strict=True)]
    frontier = [(0, column) for column in range(size) if board[0][column] == mark]
    seen = set(frontier)
    while frontier:
        row, column = frontier.pop()
        if row == size - 1:
            return True
        for r, c in ((0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (-1, 1)):
            near = (row + r, column + c)
            on_board = min(near) >= 0 and max(near) < size
            if on_board and near not in seen and board[near[0]][near[1]] == mark:
                seen.add(near)
                frontier.append(near)
    return False


def marks_of(game: Hex, state: Stones) -> list[list[str]]:
    return [line.split()[1:] for line in game.text(state, 0).splitlines()[1:-1]]


def test_board_is_drawn_slanted_for_the_seat_that_looks():
    game = Hex(size=3)
    state = play(game, "b2 c1 a3")
    assert game.text(state, 0) == ("  a b c\n1 . . O\n 2 . X .\n  3 X . .\nX joins top and bottom.")
    assert game.text(state, 1) == ("  a b c\n1 . . X\n 2 . O .\n  3 O . .\nX joins left and right.")


def test_labels_of_two_digits_keep_the_rows_in_line():
    lines = Hex(size=10).text((0, 0), 0).splitlines()
    assert lines[0].index("a") == lines[1].index(".")
    assert [b.index(".") - a.index(".") for a, b in pairwise(lines[1:11])] == [1] * 9


@pytest.mark.parametrize(
    ("moves", "returns"),
    [
        ("b1 a3 b2 a1 b3", (1.0, -1.0)),
        ("c1 a1 b2 b1 a3", (1.0, -1.0)),  # down the short diagonal, whose cells touch
        ("a1 c1 b2 b1 c3", None),  # down the long diagonal, whose cells do not
        ("a1 a3 c3 b2 c2 c1", (-1.0, 1.0)),
        ("a1 a2 b1 b2 c3 c2", (-1.0, 1.0)),
    ],
)
def test_chains_between_the_own_sides_win(moves, returns):
    game = Hex(size=3)
    state = play(game, moves)
    assert game.returns(state) == returns
    assert bool(game.legal(state)) == (returns is None)


@given(st.integers(1, 6), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_winners_agree_with_a_search_over_the_drawn_board(size, random):
    game = Hex(size=size)
    state = game.initial(np.random.default_rng(0))
    while game.returns(state) is None:
        marks = marks_of(game, state)
        assert not joins(marks, "X", down=True)
        assert not joins(marks, "O", down=False)
        state = game.apply(state, random.choice(game.legal(state)))
    marks = marks_of(game, state)
    won = (joins(marks, "X", down=True), joins(marks, "O", down=False))
    assert won == ((True, False) if game.returns(state) == (1.0, -1.0) else (False, True))


@pytest.mark.parametrize("size", [2, 3])
def test_first_player_wins_and_openings_are_symmetric(size):
    game = Hex(size=size)

    @cache
    def value(state: Stones) -> float:
        returns = game.returns(state)
        if returns is not None:
            return returns[0]
        best = max if game.seat(state) == 0 else min
        return best(value(game.apply(state, action)) for action in game.legal(state))

    start = game.initial(np.random.default_rng(0))
    assert value(start) == Hex.solved_value[0]
    openings = [value(game.apply(start, action)) for action in game.legal(start)]
    assert openings == openings[::-1]
    assert openings[size - 1] == 1.0  # the obtuse corner, on the short diagonal


@pytest.mark.parametrize("size", [3, 7])
def test_openspiel_plays_the_same_games(size):
    game, peer_game = Hex(size=size), pyspiel.load_game("hex", {"board_size": size})
    rng = np.random.default_rng(0)
    for _ in range(20):
        state, peer = game.initial(rng), peer_game.new_initial_state()
        while not peer.is_terminal():
            assert game.legal(state) == peer.legal_actions()
            action = int(rng.choice(peer.legal_actions()))
            state = game.apply(state, action)
            peer.apply_action(action)
        assert list(game.returns(state)) == peer.returns()


def test_planes_show_own_stones_first_and_who_joins_top_and_bottom():
    game = Hex(size=2)
    state = play(game, "a1 b2 b1")
    assert game.planes(state, 0).tolist() == [[[1, 1], [0, 0]], [[0, 0], [0, 1]], [[1, 1], [1, 1]]]
    assert game.planes(state, 1).tolist() == [[[0, 0], [0, 1]], [[1, 1], [0, 0]], [[0, 0], [0, 0]]]
