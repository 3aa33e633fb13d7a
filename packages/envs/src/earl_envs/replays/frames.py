"""A game shown position by position."""

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from earl_envs.boundary import attempt
from earl_envs.faces.render import render_rgb
from earl_envs.game import Game
from earl_envs.record import GameRecord, replay
from earl_envs.registry import make_game

# Draws until one differs: enough where two cards are all that is hidden.
_NUM_DRAWS = 8


def text_frames(record: GameRecord, *, seat: int = 0) -> list[str]:
    """Return what `seat` saw at the start and after every move, under a line that names the move.

    Where the game hides something from the seat, as `Game.resample` shows, moves of other seats may
    be hidden too: then the line names the seat's own moves only.

    Args:
        record: The game.
        seat: Whose view is shown; hidden parts stay hidden.

    Raises:
        ValueError: If there is no such seat, or the record does not replay.
    """
    game = make_game(record.game_id, **record.params)
    _check_seat(seat, game.num_seats)
    positions = replay(game, record.seed, record.moves)
    hides = any(_hides(game, position.state, seat) for position in positions)
    titles = ["start"]
    for number, (before, move) in enumerate(zip(positions, record.moves, strict=False), start=1):
        is_shown = before.seat == seat or not hides
        name = f"plays {game.move_name(before.state, move)}" if is_shown else "moves"
        titles.append(f"move {number}: seat {before.seat} {name}")
    return [
        f"{title}\n{game.text(position.state, seat)}"
        for title, position in zip(titles, positions, strict=True)
    ]


def rgb_frames(record: GameRecord, *, seat: int = 0) -> list[NDArray[np.uint8]]:
    """Return pictures of what `seat` saw at the start and after every move, all of one size.

    Args:
        record: The game.
        seat: Whose view is shown; hidden parts stay hidden.

    Returns:
        One array [H, W, 3] per position; smaller pictures are padded at the right and the bottom
        with the colour of their last corner.

    Raises:
        ValueError: If there is no such seat, or the record does not replay.
    """
    game = make_game(record.game_id, **record.params)
    _check_seat(seat, game.num_seats)
    pictures = [
        render_rgb(game, position.state, seat)
        for position in replay(game, record.seed, record.moves)
    ]
    height, width = (max(picture.shape[axis] for picture in pictures) for axis in (0, 1))
    return [_padded(picture, height, width) for picture in pictures]


def _hides(game: Game, state: Hashable, seat: int) -> bool:
    # A game that cannot say what it hides is taken to hide something.
    rng = np.random.default_rng(0)
    return any(attempt(game.resample, state, seat, rng) != state for _ in range(_NUM_DRAWS))


def _check_seat(seat: int, num_seats: int) -> None:
    if not 0 <= seat < num_seats:
        raise ValueError(f"seat must be in 0..{num_seats - 1}, got {seat}")


def _padded(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    padded = np.empty((height, width, 3), np.uint8)
    padded[:] = picture[-1, -1]
    padded[: picture.shape[0], : picture.shape[1]] = picture
    return padded
