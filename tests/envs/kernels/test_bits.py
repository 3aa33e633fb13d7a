"""Arithmetic on sets of cells, against Python integers and NumPy arrays."""

import numpy as np
from earl_envs.batch_base import draw_place
from earl_envs.games.connect_four import ConnectFour
from earl_envs.kernels import bits
from hypothesis import given, settings
from hypothesis import strategies as st

words = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=8)


@settings(deadline=None)
@given(words)
def test_count_is_right_for_all_64_bits(numbers):
    array = np.array([bits.signed(number) for number in numbers], np.int64)
    assert bits.count(array).tolist() == [number.bit_count() for number in numbers]


@settings(deadline=None)
@given(words, st.integers(0, 2**20), st.integers(0, 200), st.integers(1, 65))
def test_split_mix_draws_what_the_general_batch_draws(numbers, episode, move, num_places):
    seeds = np.array([bits.signed(number) for number in numbers], np.int64)
    places = np.full(len(seeds), (episode << 32) + move + 1)
    drawn = bits.split_mix(seeds, places) * num_places >> 31
    assert drawn.tolist() == [
        draw_place(number, episode, move, num_places=num_places) for number in numbers
    ]


def test_lines_of_three_are_the_eight_of_the_board():
    board = np.arange(9).reshape(3, 3)
    lines = [*board, *board.T, board.diagonal(), board[:, ::-1].diagonal()]
    for stones in range(512):
        has_line = any(all(stones >> cell & 1 for cell in line) for line in lines)
        assert (bits.lines_of_three(stones) != 0) == has_line


def _lines_of_four() -> list[int]:
    starts = [(row, column) for row in range(6) for column in range(7)]
    lines = [
        [(row + i * down, column + i * right) for i in range(4)]
        for row, column in starts
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1))
    ]
    inside = [line for line in lines if all(0 <= r < 6 and 0 <= c < 7 for r, c in line)]
    return [sum(1 << 7 * row + column for row, column in line) for line in inside]


def test_each_of_the_69_lines_of_four_is_found_and_none_of_its_parts():
    lines = _lines_of_four()
    assert len(lines) == 69
    for line in lines:
        assert bits.lines_of_four(line)
        for cell in range(42):
            if line >> cell & 1:
                assert not bits.lines_of_four(line ^ 1 << cell)


@settings(deadline=None)
@given(st.integers(0, 2**42 - 1))
def test_lines_of_four_do_not_run_around_the_edge(stones):
    has_line = any(line & ~stones == 0 for line in _lines_of_four())
    assert (bits.lines_of_four(stones) != 0) == has_line


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), max_size=42))
def test_stones_land_where_the_rules_put_them(columns):
    game, taken, heights = ConnectFour(), 0, [0] * 7
    for column in columns:
        cell = bits.landing(taken, column)
        if heights[column] == game.rows:
            assert cell == 0
            continue
        assert cell == 1 << 7 * (5 - heights[column]) + column
        taken |= cell
        heights[column] += 1
