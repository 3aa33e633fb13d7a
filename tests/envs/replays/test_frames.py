"""A game position by position."""

from itertools import pairwise

import numpy as np
import pytest
from earl_envs import GameRecord, make_game
from earl_envs.faces.render import render_rgb
from earl_envs.replays.frames import rgb_frames, text_frames

RECORD = GameRecord(game_id="earl/TicTacToe-v0", seed=3, moves=(4, 0, 8))


def test_text_frames_name_each_move_over_the_board_it_led_to():
    assert text_frames(RECORD) == [
        "start\n1 2 3\n4 5 6\n7 8 9",
        "move 1: seat 0 plays [5]\n1 2 3\n4 X 6\n7 8 9",
        "move 2: seat 1 plays [1]\nO 2 3\n4 X 6\n7 8 9",
        "move 3: seat 0 plays [9]\nO 2 3\n4 X 6\n7 8 X",
    ]


def test_moves_that_the_seat_may_not_see_are_not_named():
    record = GameRecord(game_id="earl/KuhnPoker-v0", seed=3, moves=(0, 1, 1))
    for seat in (0, 1):
        titles = [frame.partition("\n")[0] for frame in text_frames(record, seat=seat)]
        assert [" plays [" in title for title in titles[1:]] == [
            *(mover == seat for mover in (0, 1, 0)),
        ]
    assert titles[1] == "move 1: seat 0 moves"


def test_hidden_simultaneous_choice_is_in_no_frame():
    pytest.importorskip("pyspiel")
    record = GameRecord(game_id="openspiel/matrix_rps-v0", seed=0, moves=(2,))
    rock = GameRecord(game_id="openspiel/matrix_rps-v0", seed=0, moves=(0,))
    assert text_frames(record, seat=1) == text_frames(rock, seat=1)
    assert text_frames(record, seat=0) != text_frames(rock, seat=0)


def test_frames_show_what_the_seat_sees():
    assert text_frames(RECORD, seat=1)[-1].endswith("X 2 3\n4 O 6\n7 8 O")
    own, other = rgb_frames(RECORD), rgb_frames(RECORD, seat=1)
    assert not np.array_equal(own[-1], other[-1])
    assert np.array_equal(own[0], other[0])


def test_pictures_are_those_of_the_positions():
    frames, game = rgb_frames(RECORD), make_game(RECORD.game_id)

    assert len(frames) == 4
    for frame, position in zip(frames, RECORD.positions(), strict=True):
        drawn = render_rgb(game, position.state, 0)
        assert frame.dtype == np.uint8
        assert np.array_equal(frame[: drawn.shape[0], : drawn.shape[1]], drawn)
    assert all(not np.array_equal(a, b) for a, b in pairwise(frames))


def test_pictures_of_a_game_have_one_size():
    shapes = {frame.shape for frame in rgb_frames(RECORD)}

    assert len(shapes) == 1


@pytest.mark.parametrize("frames", [text_frames, rgb_frames])
@pytest.mark.parametrize("seat", [-1, 2])
def test_a_seat_that_there_is_not_is_refused(frames, seat):
    with pytest.raises(ValueError, match=rf"seat must be in 0..1, got {seat}"):
        frames(RECORD, seat=seat)


def test_a_record_that_does_not_replay_is_refused():
    broken = GameRecord(game_id="earl/TicTacToe-v0", seed=0, moves=(4, 4))
    with pytest.raises(ValueError, match="move 1 of the record"):
        text_frames(broken)
