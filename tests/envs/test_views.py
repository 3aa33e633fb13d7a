"""Views of one shape."""

import numpy as np
import pytest
from earl_envs import make_game, replay, start_position
from earl_envs.batch_base import padded_moves
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.views import empty_view, view

EMPTY = np.zeros((2, 3, 3), np.uint8)


class Showing(TicTacToe):
    """Shows what the function that it was made with says."""

    def __init__(self, planes):
        self._planes = planes

    def planes(self, state, seat):
        return self._planes(state, seat)


def test_planes_are_those_of_the_seat_to_move_and_of_seat_0_at_the_end():
    game = make_game("earl/TicTacToe-v0")
    running = start_position(game, 0)
    for seat, position in (
        (0, running),
        (1, _after(game, [4])),
        (0, _after(game, [0, 3, 1, 4, 2])),
    ):
        seen = view(game, position, (), like=EMPTY)
        np.testing.assert_array_equal(seen, game.planes(position.state, seat))


def _after(game, moves):
    return replay(game, 0, moves)[-1]


def test_without_planes_the_moves_are_shown():
    game = Showing(lambda state, seat: None)
    like = empty_view(game, [0])
    assert like.tolist() == [-1] * game.max_moves
    seen = view(game, start_position(game, 0), (5, 3), like=like)
    assert seen.tolist() == [5, 3, *[-1] * 7]
    assert padded_moves((5,), 3).tolist() == [5, -1, -1]


@pytest.mark.parametrize(
    ("planes", "message"),
    [
        (np.zeros((2, 3, 3)), r"must always be uint8 \(2, 3, 3\), got float64 \(2, 3, 3\)"),
        (np.zeros((3, 3), np.uint8), r"must always be uint8 \(2, 3, 3\), got uint8 \(3, 3\)"),
        ([[1]], r"must always be uint8 \(2, 3, 3\), got \[\[1\]\]"),
        (None, r"must always be uint8 \(2, 3, 3\), got None"),
    ],
)
def test_anything_but_the_usual_array_is_refused(planes, message):
    game = Showing(lambda state, seat: planes)
    with pytest.raises(ValueError, match=message):
        view(game, start_position(game, 0), (), like=EMPTY)


def test_the_shape_is_that_of_the_first_start_that_can_be_seen():
    calls = []

    def planes(state, seat):
        calls.append(state)
        if len(calls) == 1:
            raise RuntimeError("broke")
        return np.ones((len(calls), 1), np.uint8)

    assert empty_view(Showing(planes), [0, 1, 2]).tolist() == [[0], [0]]
    assert len(calls) == 2
