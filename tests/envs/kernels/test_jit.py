"""Bits as bytes and the n-th bit, compiled."""

import numpy as np
import pytest
from earl_envs.kernels import jit
from earl_envs.kernels.bits import signed
from numba import njit

WORD = 0xB5A3_0F19_8C7E_D241


@njit
def _spread_all(array, word):
    jit.spread_64(array, 3, word)
    jit.spread_16(array, 70, word)
    jit.spread_8(array, 90, word)
    jit.spread_4(array, 100, word)
    jit.spread_32(array, 110, word)


def test_spread_writes_the_lowest_bits_and_nothing_else():
    array = np.full(150, 7, np.uint8)
    _spread_all(array, signed(WORD))
    expected = np.full(150, 7, np.uint8)
    for offset, width in ((3, 64), (70, 16), (90, 8), (100, 4), (110, 32)):
        expected[offset : offset + width] = [WORD >> place & 1 for place in range(width)]
    np.testing.assert_array_equal(array, expected)


@njit
def _nth(word, n):
    return jit.nth(word, n), jit.nth_of_nine(word & 511, n)


@pytest.mark.parametrize("word", [0b1, 0b101, 0b111_111_111, 0b100_000_000, WORD, 1 << 63])
def test_nth_counts_from_the_lowest_bit(word):
    places = [place for place in range(64) if word >> place & 1]
    nines = [place for place in places if place < 9]
    for n, place in enumerate(places):
        nth, nth_of_nine = _nth(signed(word), min(n, 8))
        assert nth == places[min(n, 8)]
        if n < len(nines):
            assert (nth, nth_of_nine) == (place, place)
