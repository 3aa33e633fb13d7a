"""What is written is read back."""

import numpy as np
import pytest
from earl_envs import GameRecord
from earl_envs.replays.frames import rgb_frames
from earl_envs.replays.gif import write_gif
from PIL import Image, ImageSequence


@pytest.fixture(scope="module")
def frames():
    return rgb_frames(GameRecord(game_id="earl/TicTacToe-v0", seed=3, moves=(4, 0, 8)))


def test_a_gif_holds_every_frame_at_its_rate_and_the_last_one_longer(tmp_path, frames):
    write_gif(tmp_path / "game.gif", frames, fps=4)

    with Image.open(tmp_path / "game.gif") as gif:
        shown = [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(gif)]
        durations = [frame.info["duration"] for frame in ImageSequence.Iterator(gif)]
        assert gif.info["loop"] == 0
    assert len(shown) == len(frames)
    for written, read in zip(frames, shown, strict=True):
        # The palette holds 256 colours, more than a board has.
        assert np.abs(written.astype(int) - read.astype(int)).max() <= 8
    assert durations == [250, 250, 250, 750]


def test_equal_frames_are_shown_as_long_as_they_are_many(tmp_path, frames):
    write_gif(tmp_path / "still.gif", [frames[0]] * 4, fps=10)

    with Image.open(tmp_path / "still.gif") as gif:
        total = sum(frame.info["duration"] for frame in ImageSequence.Iterator(gif))
    assert total == 3 * 100 + 300


@pytest.mark.parametrize(
    ("shapes", "fps", "said"),
    [
        ([], 1, "at least one frame"),
        ([(4, 4, 3)], 0, "above 0 and at most 50, got 0"),
        ([(4, 4, 3)], 51.0, "above 0 and at most 50, got 51.0"),
        ([(4, 4, 3), (4, 5, 3)], 1, "must share one shape"),
        ([(4, 4)], 1, r"must share one shape \[H, W, 3\]"),
    ],
)
def test_frames_that_make_no_gif_are_refused(tmp_path, shapes, fps, said):
    with pytest.raises(ValueError, match=said):
        write_gif(tmp_path / "x.gif", [np.zeros(shape, np.uint8) for shape in shapes], fps=fps)
    assert not (tmp_path / "x.gif").exists()
