"""Compiled rules of Connect Four on six rows of seven cells.

Unlike those of `earl_envs.games.connect_four`, bits are numbered as an observation is, 7 * row +
column from the top left, so that a bitboard turns into bytes in one go.
"""

from typing import no_type_check

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from earl_envs.kernels.bits import TOP_ROW, landing, lines_of_four
from earl_envs.kernels.jit import spread_4, spread_32, spread_64
from earl_envs.kernels.placing import is_open, pick_open, settle
from earl_envs.kernels.rules import KernelRules

_ROWS, _COLUMNS = 6, 7


@register_jitable
@no_type_check
def move(own: int, other: int, action: int) -> tuple[int, int, int, int]:
    """Drop a stone; see `KernelRules.move`."""
    own |= landing(own | other, action)
    return settle(own, other, lines_of_four(own), TOP_ROW)


@register_jitable
@no_type_check
def show(block: NDArray[np.uint8], start: int, index: int, own: int, other: int) -> None:
    """Write 84 bytes, some of them twice."""
    offset = start + 84 * index
    spread_64(block, offset, own | other << 42)
    spread_32(block, offset + 52, other >> 10)


@register_jitable
@no_type_check
def show_mask(block: NDArray[np.uint8], start: int, index: int, legal: int, running: bool) -> None:
    """Write seven bytes, the one in the middle twice."""
    offset = start + 7 * index
    spread_4(block, offset, legal)
    spread_4(block, offset + 3, legal >> 3)


def state(first: int, second: int, num_moves: int) -> tuple[int, int]:
    """Return the stones of either seat, bit 7 * column + height."""
    return (_transposed(first), _transposed(second))


def _transposed(cells: int) -> int:
    return sum(
        1 << (_ROWS + 1) * column + _ROWS - 1 - row
        for row in range(_ROWS)
        for column in range(_COLUMNS)
        if cells >> _COLUMNS * row + column & 1
    )


RULES = KernelRules(
    planes_shape=(2, _ROWS, _COLUMNS),
    num_actions=_COLUMNS,
    max_moves=_ROWS * _COLUMNS,
    start=(0, 0, TOP_ROW),
    move=move,
    is_legal=is_open,
    pick=pick_open,
    show=show,
    show_mask=show_mask,
    state=state,
)
"""Compiled Connect Four."""
