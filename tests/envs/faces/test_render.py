"""Pictures."""

import numpy as np
import pytest
from earl_envs.faces.render import RENDER_MODES, check_render_mode, render, render_rgb
from earl_envs.registry import make_game

CELL = 32


def centre(picture, row, column):
    return tuple(picture[row * CELL + CELL // 2, column * CELL + CELL // 2].tolist())


def test_a_board_shows_own_stones_red_others_in_another_colour_and_holes():
    game = make_game("earl/TicTacToe-v0")
    picture = render_rgb(game, (0b1, 0b10_000), 0)
    assert picture.dtype == np.uint8
    assert picture.shape == (3 * CELL, 3 * CELL, 3)
    red, green, blue = centre(picture, 0, 0)
    assert red > max(green, blue)
    other = centre(picture, 1, 1)
    assert other != centre(picture, 0, 0)
    assert len({centre(picture, row, column) for row in range(3) for column in range(3)}) == 3
    assert tuple(picture[0, 0].tolist()) == tuple(picture[-1, -1].tolist()), (
        "corners are background"
    )
    turned = render_rgb(game, (0b1, 0b10_000), 1)
    assert centre(turned, 1, 1) == centre(picture, 0, 0), "each seat sees its own stones red"


@pytest.fixture
def board():
    """A game that shows whatever planes it is given."""

    def show(planes):
        game = make_game("faces/Faulty-v0", method="planes", below=0)
        game.planes = lambda state, seat: np.array(planes, np.uint8)
        return render_rgb(game, (3, 0, 0), 0)

    return show


def test_higher_values_are_brighter(board):
    values = [[1, 2, 4], [0, 0, 0], [0, 0, 0]]
    picture = board([values, [[0, 0, 0], [0, 0, 0], [1, 0, 0]]])
    low, middle, high = (centre(picture, 0, column)[0] for column in range(3))
    assert low < middle < high


def test_planes_set_everywhere_are_left_out(board):
    stones = [[[1, 0, 0], [0, 0, 0], [0, 0, 0]], [[0, 1, 0], [0, 0, 0], [0, 0, 0]]]
    constant = [[1] * 3] * 3
    picture = board([*stones, constant])
    assert centre(picture, 2, 2) == centre(board([*stones, [[0] * 3] * 3]), 2, 2)
    assert centre(picture, 0, 0) != centre(picture, 0, 1) != centre(picture, 2, 2)


@pytest.mark.parametrize("planes", [[[[1] * 4] * 4], [[[1] * 4] * 2] * 3])
def test_planes_unlike_a_board_are_not_drawn(board, planes):
    assert board(planes).shape == (24 + 4, 8 * 16 + 4, 3), "one line of eight characters"


def test_other_games_are_drawn_as_text():
    game = make_game("faces/LastStone-v0")
    eleven, seven = (render_rgb(game, (left, 0), 0) for left in (11, 77))
    assert eleven.shape == seven.shape
    assert eleven.shape[2] == 3
    ink = (eleven != eleven[0, 0]).any(axis=2)
    assert 0.1 < ink.mean() < 0.6
    differing = (eleven != seven).any(axis=(0, 2))
    assert differing[: 2 * 16 + 4].any(), "the number differs"
    assert not differing[2 * 16 + 4 :].any(), "the word does not"


def test_long_lines_are_wrapped_and_unknown_characters_shown_as_blocks():
    game = make_game("faces/LastStone-v0")
    game.text = lambda state, seat: "x" * 100
    tall = render_rgb(game, (1, 0), 0)
    game.text = lambda state, seat: "\u2603"
    block = render_rgb(game, (1, 0), 0)
    assert tall.shape[1] < 50 * 16
    assert tall.shape[0] == 3 * 24 + 4
    assert (block != block[0, 0]).any(axis=2).sum() == 15 * 16


def test_modes():
    game = make_game("earl/TicTacToe-v0")
    assert render("ansi", game, (0, 0), 0) == "1 2 3\n4 5 6\n7 8 9"
    assert np.array_equal(render("rgb_array", game, (0, 0), 0), render_rgb(game, (0, 0), 0))
    with pytest.raises(ValueError, match=r"needs render_mode in .*, got None"):
        render(None, game, (0, 0), 0)
    for mode in (None, *RENDER_MODES):
        check_render_mode(mode)
    with pytest.raises(ValueError, match="unknown render mode 'anso'; did you mean 'ansi'"):
        check_render_mode("anso")
