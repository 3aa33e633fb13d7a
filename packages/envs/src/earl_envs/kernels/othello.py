"""Compiled rules of Othello; bits are numbered as in `earl_envs.games.othello`.

The moves of all squares at once are found by filling along each direction, as chess programs find
attacked squares (https://www.chessprogramming.org/Dumb7Fill).
"""

from typing import no_type_check

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from earl_envs.games.othello import DIRECTIONS, PASS
from earl_envs.kernels.bits import count, signed
from earl_envs.kernels.jit import nth, spread_64
from earl_envs.kernels.rules import RUNNING, KernelRules

# A right shift of an int64 fills up with copies of the sign; the masks leave nothing of them.
_LEFT = tuple((by, signed(mask & ~(2**by - 1))) for by, mask in DIRECTIONS if by > 0)
_RIGHT = tuple((-by, signed(mask & 2 ** (64 + by) - 1)) for by, mask in DIRECTIONS if by < 0)


@register_jitable
@no_type_check
def _moves(own: int, other: int) -> int:
    found = 0
    for by, mask in _LEFT:
        inner = other & mask
        run = own << by & inner
        for _ in range(5):
            run |= run << by & inner
        found |= run << by & mask
    for by, mask in _RIGHT:
        inner = other & mask
        run = own >> by & inner
        for _ in range(5):
            run |= run >> by & inner
        found |= run >> by & mask
    return found & ~(own | other)


@register_jitable
@no_type_check
def _flips(own: int, other: int, disc: int) -> int:
    turned = 0
    for by, mask in _LEFT:
        inner = other & mask
        run = disc << by & inner
        for _ in range(5):
            run |= run << by & inner
        if run << by & mask & own:
            turned |= run
    for by, mask in _RIGHT:
        inner = other & mask
        run = disc >> by & inner
        for _ in range(5):
            run |= run >> by & inner
        if run >> by & mask & own:
            turned |= run
    return turned


@register_jitable
@no_type_check
def move(own: int, other: int, action: int) -> tuple[int, int, int, int]:
    """Place a disc or pass; see `KernelRules.move`."""
    if action != PASS:
        disc = 1 << action
        turned = _flips(own, other, disc)
        own |= disc | turned
        other &= ~turned
    legal = _moves(other, own)
    if legal or _moves(own, other):
        return other, own, legal, RUNNING
    lead = count(own) - count(other)
    return other, own, 0, (lead > 0) - (lead < 0)


@register_jitable
@no_type_check
def is_legal(legal: int, action: int) -> bool:
    """Tell whether a square flips a disc; in a running game without any, a pass is legal."""
    if action == PASS:
        return legal == 0
    return 0 <= action < PASS and legal >> action & 1 == 1


@register_jitable
@no_type_check
def pick(legal: int, draw: int) -> int:
    """Choose a square, or the pass."""
    return nth(legal, draw * count(legal) >> 31) if legal else PASS


@register_jitable
@no_type_check
def show(block: NDArray[np.uint8], start: int, index: int, own: int, other: int) -> None:
    """Write 128 bytes."""
    offset = start + 128 * index
    spread_64(block, offset, own)
    spread_64(block, offset + 64, other)


@register_jitable
@no_type_check
def show_mask(block: NDArray[np.uint8], start: int, index: int, legal: int, running: bool) -> None:
    """Write 64 bytes for the squares and one for the pass."""
    offset = start + 65 * index
    spread_64(block, offset, legal)
    block[np.uint64(offset) + np.uint64(PASS)] = running and legal == 0


def state(first: int, second: int, num_moves: int) -> tuple[int, int, int]:
    """Return the discs of either seat, and the seat to move."""
    return (first % 2**64, second % 2**64, num_moves % 2)


RULES = KernelRules(
    planes_shape=(2, 8, 8),
    num_actions=65,
    max_moves=119,
    start=(1 << 28 | 1 << 35, 1 << 27 | 1 << 36, 1 << 19 | 1 << 26 | 1 << 37 | 1 << 44),
    move=move,
    is_legal=is_legal,
    pick=pick,
    show=show,
    show_mask=show_mask,
    state=state,
)
"""Compiled Othello."""
