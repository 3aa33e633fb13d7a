"""OpenSpiel's tensors as board arrays."""

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
