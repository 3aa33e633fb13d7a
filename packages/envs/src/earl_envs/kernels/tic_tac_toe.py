"""Compiled rules of Tic-Tac-Toe; bits are numbered as in `earl_envs.games.tic_tac_toe`."""

from typing import no_type_check

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from earl_envs.kernels.bits import ROWS_OF_THREE, lines_of_three
from earl_envs.kernels.jit import spread_8, spread_16
from earl_envs.kernels.placing import is_open, pick_open, settle
from earl_envs.kernels.rules import KernelRules


@register_jitable
@no_type_check
def move(own: int, other: int, action: int) -> tuple[int, int, int, int]:
    """Put a stone on a cell; see `KernelRules.move`."""
    own |= 1 << action
    return settle(own, other, lines_of_three(own), ROWS_OF_THREE)


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
    is_legal=is_open,
    pick=pick_open,
    show=show,
    show_mask=show_mask,
    state=state,
)
"""Compiled Tic-Tac-Toe."""
