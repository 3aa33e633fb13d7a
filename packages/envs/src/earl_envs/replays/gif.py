"""Pictures as an animated GIF: the only module that imports Pillow."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_HOLD_FRAMES = 3


def write_gif(path: Path, frames: Sequence[NDArray[np.uint8]], *, fps: float | int = 1.0) -> None:
    """Write frames as a GIF that repeats for ever and holds its last frame three times as long.

    Args:
        path: The file to write.
        frames: Pictures of one size. [H, W, 3]
        fps: Frames per second, at most 50: viewers slow down anything faster.

    Raises:
        ValueError: If there is no frame, sizes differ, or the rate is out of range.
        ImportError: If Pillow is not installed.
    """
    if not frames:
        raise ValueError("a GIF needs at least one frame, got none")
    if not 0.0 < fps <= 50.0:
        raise ValueError(f"fps must be above 0 and at most 50, got {fps}")
    shapes = sorted({frame.shape for frame in frames})
    if len(shapes) > 1 or len(shapes[0]) != 3 or shapes[0][2] != 3:
        raise ValueError(f"frames must share one shape [H, W, 3], got {shapes}")
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "GIFs are written by Pillow, which is not installed: pip install earl-envs[media]"
        ) from error
    images = [Image.fromarray(frame) for frame in frames]
    frame_ms = round(1000 / fps)
    durations = [frame_ms] * (len(images) - 1) + [_HOLD_FRAMES * frame_ms]
    images[0].save(
        path,
        format="GIF",
        save_all=True,
        append_images=images[1:],
        duration=durations,
        loop=0,
    )
