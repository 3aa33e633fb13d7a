"""What compiled games share in which a stone is placed and a line wins."""

from typing import no_type_check

from numba.extending import register_jitable

from earl_envs.kernels.bits import count
from earl_envs.kernels.jit import nth_of_nine
from earl_envs.kernels.rules import RUNNING


@register_jitable
@no_type_check
def settle(own: int, other: int, line: int, open_cells: int) -> tuple[int, int, int, int]:
    """Return what `KernelRules.move` does once the stone is among `own`.

    Args:
        own: The stones of who has just moved.
        other: Those of the opponent.
        line: Not 0 when the stone has made a line.
        open_cells: The cells that are free as long as the moves of the same bits are open.
    """
    choices = open_cells & ~(own | other)
    legal = 0 if line else choices
    outcome = 1 if line else (RUNNING if choices else 0)
    return other, own, legal, outcome


@register_jitable
@no_type_check
def is_open(legal: int, action: int) -> bool:
    """Tell whether a move is one of the bits; see `KernelRules.is_legal`."""
    return 0 <= action < 64 and legal >> action & 1 == 1


@register_jitable
@no_type_check
def pick_open(legal: int, draw: int) -> int:
    """Choose one of up to nine moves; see `KernelRules.pick`."""
    return nth_of_nine(legal, draw * count(legal) >> 31)
