"""OpenSpiel's tensors as board arrays."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def board_of(game: Any, spiel: Any, seat: int) -> NDArray[np.float32] | None:  # noqa: ANN401
    """Return what `seat` sees, from OpenSpiel's observation or else its information state.

    Args:
        game: OpenSpiel's game; like `spiel` opaque, since the library has no type information.
        spiel: One of the game's states.
        seat: The seat that looks.

    Returns:
        The tensor as [planes, rows, columns], fewer axes filled up in front and more run together,
        or None if the game has no tensor.
    """
    kind = game.get_type()
    if kind.provides_observation_tensor:
        values = spiel.observation_tensor(seat)
        shape, layout = game.observation_tensor_shape(), game.observation_tensor_layout()
    elif kind.provides_information_state_tensor:
        values = spiel.information_state_tensor(seat)
        shape = game.information_state_tensor_shape()
        layout = game.information_state_tensor_layout()
    else:
        return None
    board = np.asarray(values, np.float32).reshape(shape)
    if board.ndim == 3 and layout.name == "HWC":
        return np.moveaxis(board, -1, 0)
    rows_columns = (1, 1, *board.shape)[-2:]
    return board.reshape(-1, *rows_columns)


def as_bytes(board: NDArray[np.float32]) -> NDArray[np.uint8] | None:
    """Return the same numbers as bytes, or None if not all of them are whole and in 0..255."""
    if not ((board >= 0) & (board <= 255) & (board == np.floor(board))).all():
        return None
    return board.astype(np.uint8)


def stay_bytes(boards: Iterable[object], *, num_probed: int) -> bool:
    """Return whether all boards are arrays of whole numbers in 0..255.

    Ones and zeros stay what they are, so of such boards the first `num_probed` tell; numbers that
    count something may grow, so with any of them all are looked at.
    """
    counts = False
    for number, board in enumerate(boards):
        if number >= num_probed and not counts:
            break
        if not isinstance(board, np.ndarray) or as_bytes(board) is None:
            return False
        counts |= bool((board > 1).any())
    return True
