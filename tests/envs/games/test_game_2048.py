"""2048: merges, new tiles and scores."""

import numpy as np
import pytest
from earl_envs.games.game_2048 import Game2048, Tiles, slide
from hypothesis import given
from hypothesis import strategies as st

GAME = Game2048()
LEFT, DOWN, RIGHT, UP = range(4)


def drawn(text: str, *, num_moves: int = 0, chance: int = 0) -> Tiles:
    marks = text.split()
    exponents = tuple(0 if mark == "." else int(mark).bit_length() - 1 for mark in marks)
    return Tiles(exponents, num_moves, chance)


def total(state: Tiles) -> int:
    return sum(2**exponent for exponent in state.exponents if exponent)


@pytest.mark.parametrize(
    ("line", "merged"),
    [
        ((1, 1, 1, 1), (2, 2, 0, 0)),
        ((2, 1, 1, 0), (2, 2, 0, 0)),
        ((1, 1, 2, 0), (2, 2, 0, 0)),
        ((1, 1, 1, 0), (2, 1, 0, 0)),
        ((0, 1, 0, 1), (2, 0, 0, 0)),
        ((1, 0, 2, 1), (1, 2, 1, 0)),
        ((0, 0, 0, 3), (3, 0, 0, 0)),
        ((3, 2, 1, 1), (3, 2, 2, 0)),
        ((0, 0, 0, 0), (0, 0, 0, 0)),
    ],
)
def test_lines_slide_and_each_tile_merges_once(line, merged):
    assert slide(line) == merged


@given(st.lists(st.integers(0, 11), min_size=4, max_size=4))
def test_merging_keeps_the_sum_and_leaves_no_gap(line):
    merged = slide(tuple(line))
    assert sum(2**e for e in merged if e) == sum(2**e for e in line if e)
    num_tiles = sum(map(bool, merged))
    assert all(merged[:num_tiles])
    assert not any(merged[num_tiles:])


@pytest.mark.parametrize(
    ("way", "moved"),
    [
        (LEFT, "4 . . .\n4 . . .\n8 2 . .\n16 . . ."),
        (DOWN, ". . . .\n2 . . .\n8 . . .\n16 4 . 4"),
        (RIGHT, ". . . 4\n. . . 4\n. . 8 2\n. . . 16"),
        (UP, "2 4 . 4\n8 . . .\n16 . . .\n. . . ."),
    ],
)
def test_all_lines_slide_the_way_that_is_named(way, moved):
    before = drawn("2 . . 2\n. 4 . .\n8 . . 2\n16 . . .")
    after, reached = drawn(moved), GAME.apply(before, way)
    differing = [(a, b) for a, b in zip(after.exponents, reached.exponents, strict=True) if a != b]
    assert differing in ([(0, 1)], [(0, 2)])  # the new tile


def test_new_tiles_are_anywhere_and_a_tenth_are_fours():
    rng = np.random.default_rng(0)
    before = drawn(". . . .\n. . . .\n. . . .\n. . . 8")
    cells: list[int] = []
    num_fours = 0
    for _ in range(3_000):
        reached = GAME.apply(GAME.resample(before, 0, rng), LEFT)
        (cell,) = (i for i, e in enumerate(reached.exponents) if e in {1, 2})
        cells.append(cell)
        num_fours += reached.exponents[cell] == 2
    assert num_fours == pytest.approx(300, abs=60)
    counts = [cells.count(cell) for cell in range(16)]
    assert counts[12] == 0
    assert min(counts[:12] + counts[13:]) > 130


def test_games_begin_with_two_tiles():
    starts = [GAME.initial(np.random.default_rng(seed)).exponents for seed in range(200)]
    assert {sum(map(bool, start)) for start in starts} == {2}
    assert {exponent for start in starts for exponent in start} == {0, 1, 2}
    assert {cell for start in starts for cell, e in enumerate(start) if e} == set(range(16))


def test_only_moves_that_change_the_board_are_legal():
    assert GAME.legal(drawn("2 4 . .\n4 2 . .\n. . . .\n. . . .")) == [DOWN, RIGHT]
    stuck = drawn("2 4 2 4\n4 2 4 2\n2 4 2 4\n4 2 4 2")
    assert GAME.legal(stuck) == []
    assert GAME.returns(stuck) == (1 / 10,)
    assert GAME.legal(drawn("2 4 2 4\n4 2 4 2\n2 4 2 4\n4 2 4 4")) == [LEFT, DOWN, RIGHT, UP]


def test_target_or_move_limit_end_the_game_and_score_by_doublings():
    board = "{} 2 . .\n. . . .\n. . . .\n. . . ."
    assert GAME.returns(drawn(board.format(2048))) == (1.0,)
    assert GAME.legal(drawn(board.format(2048))) == []
    assert GAME.returns(drawn(board.format(1024))) is None
    assert GAME.returns(drawn(board.format(1024), num_moves=GAME.max_moves)) == (0.9,)
    assert GAME.legal(drawn(board.format(1024), num_moves=GAME.max_moves)) == []
    assert Game2048(target=64).returns(drawn(board.format(8), num_moves=64)) == (2 / 5,)


def test_moves_add_two_or_four_and_most_targets_are_reached_before_the_move_limit():
    game = Game2048(target=64)
    lengths = []
    for seed in range(20):
        state = game.initial(np.random.default_rng(seed))
        while game.returns(state) is None:
            reached = game.apply(state, min(game.legal(state)))
            assert total(reached) - total(state) in {2, 4}
            state = reached
        if game.returns(state) == (1.0,):
            lengths.append(state.num_moves)
    assert len(lengths) > 10
    assert np.median(lengths) < game.max_moves * 0.9


def test_text_shows_tiles_and_planes_one_kind_each():
    state = drawn("2 . . .\n. 4 . .\n. . . .\n. . . 2048")
    assert GAME.text(state, 0) == "2 . . .\n. 4 . .\n. . . .\n. . . 2048"
    planes = GAME.planes(state, 0)
    assert np.argwhere(planes).tolist() == [[0, 0, 0], [1, 1, 1], [10, 3, 3]]
    assert len(planes) == 11
