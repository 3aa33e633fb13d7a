"""Arithmetic on int64 as sets of cells, alike for compiled numbers and for arrays of them.

Nothing here is written in place or branches, so that one text serves compiled loops, NumPy arrays
and tensors on any device.
"""

from typing import Any, TypeAlias, no_type_check

Bits: TypeAlias = Any
"""A number, an array or a tensor of int64."""


def signed(word: int) -> int:
    """Return the int64 with these 64 bits; there is no unsigned arithmetic here."""
    return word - (1 << 64) if word >> 63 else word


_GOLDEN, _MIX_1, _MIX_2 = map(signed, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

ROWS_OF_THREE = 0b111_111_111
"""All cells of Tic-Tac-Toe: bit 3 * row + column."""

ROWS_OF_SEVEN = 2**42 - 1
"""All cells of Connect Four: bit 7 * row + column from the top left."""

TOP_ROW = 0b111_1111
"""The cells of Connect Four that the last stones of the columns take."""

_COLUMN = sum(1 << 7 * row for row in range(6))
_LEFT = sum(_COLUMN << column for column in range(4))
_RIGHT = sum(_COLUMN << column for column in range(3, 7))


@no_type_check
def count(bits: Bits) -> Bits:
    """Return how many bits are set (Warren, Hacker's Delight, figure 5-2)."""
    # A right shift of an int64 fills up with copies of the sign; all masks here drop them.
    pairs = bits - (bits >> 1 & 0x5555555555555555)
    fours = (pairs & 0x3333333333333333) + (pairs >> 2 & 0x3333333333333333)
    eights = fours + (fours >> 4) & 0x0F0F0F0F0F0F0F0F
    return eights * 0x0101010101010101 >> 56 & 127


@no_type_check
def split_mix(seed: Bits, place: Bits) -> Bits:
    """Return the upper 31 bits of output `place` of SplitMix64; see `draw_place`."""
    bits = seed + place * _GOLDEN
    bits = (bits ^ bits >> 30 & 0x3_FFFF_FFFF) * _MIX_1
    bits = (bits ^ bits >> 27 & 0x1F_FFFF_FFFF) * _MIX_2
    return (bits ^ bits >> 31 & 0x1_FFFF_FFFF) >> 33 & 0x7FFF_FFFF


@no_type_check
def lines_of_three(stones: Bits) -> Bits:
    """Return bits, any of which is set when three stones of Tic-Tac-Toe are in a row."""
    across = stones & stones >> 1 & stones >> 2 & 0b001_001_001
    down = stones & stones >> 3 & stones >> 6
    falling = stones & stones >> 4 & stones >> 8
    rising = stones & stones >> 2 & stones >> 4 & 0b000_000_100
    return across | down | falling | rising


@no_type_check
def lines_of_four(stones: Bits) -> Bits:
    """Return bits, any of which is set when four stones of Connect Four are in a row."""
    # A line may start only where it has room: bits run on from one row to the next.
    across, down = stones & stones >> 1, stones & stones >> 7
    falling, rising = stones & stones >> 8, stones & stones >> 6
    rightward = (across & across >> 2 | falling & falling >> 16) & _LEFT
    return rightward | down & down >> 14 | rising & rising >> 12 & _RIGHT


@no_type_check
def landing(taken: Bits, column: Bits) -> Bits:
    """Return the cell where a stone dropped into a column of Connect Four comes to lie."""
    empty = ROWS_OF_SEVEN & ~taken
    # It is empty, and the cell below it is not.
    return empty & ~(empty >> 7) & _COLUMN << column
