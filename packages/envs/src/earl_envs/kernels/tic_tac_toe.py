"""Compiled rules of Tic-Tac-Toe; bits are numbered as in `earl_envs.games.tic_tac_toe`."""

from typing import no_type_check

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from earl_envs.kernels.bits import ROWS_OF_THREE, count, lines_of_three
from earl_envs.kernels.jit import nth_of_nine, spread_8, spread_16
from earl_envs.kernels.rules import RUNNING, KernelRules


@register_jitable
@no_type_check
def move(own: int, other: int, action: int) -> tuple[int, int, int, int]:
    """Put a stone on a cell; see `KernelRules.move`."""
    own |= 1 << action
    if lines_of_three(own):
        return other, own, 0, 1
    legal = ROWS_OF_THREE & ~(own | other)
    return other, own, legal, RUNNING if legal else 0


@register_jitable
@no_type_check
def is_legal(legal: int, action: int) -> bool:
    """Tell whether a cell is empty."""
    return 0 <= action < 9 and legal >> action & 1 == 1


@register_jitable
@no_type_check
def pick(legal: int, draw: int) -> int:
    """Choose an empty cell."""
    return nth_of_nine(legal, draw * count(legal) >> 31)


@register_jitable
@no_type_check
def show(block: NDArray[np.uint8], start: int, index: int, own: int, other: int) -> None:
    """Write 18 bytes, those in the middle twice."""
    offset = start + 18 * index
    cells = own | other << 9
    spread_16(block, offset, cells)
    spread_16(block, offset + 2, cells >> 2)


@register_jitable
@no_type_check
def show_mask(block: NDArray[np.uint8], start: int, index: int, legal: int, running: bool) -> None:
    """Write nine bytes, those in the middle twice."""
    offset = start + 9 * index
    spread_8(block, offset, legal)
    spread_8(block, offset + 1, legal >> 1)


def state(first: int, second: int, num_moves: int) -> tuple[int, int]:
    """Return the stones of either seat."""
    return (first, second)


RULES = KernelRules(
    planes_shape=(2, 3, 3),
    num_actions=9,
    max_moves=9,
    start=(0, 0, ROWS_OF_THREE),
    move=move,
    is_legal=is_legal,
    pick=pick,
    show=show,
    show_mask=show_mask,
    state=state,
    source=__file__,
)
"""Compiled Tic-Tac-Toe."""
