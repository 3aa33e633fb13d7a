"""One block of memory and the arrays in it."""

import numpy as np
import pytest
from earl_envs.kernels import arena
from earl_envs.kernels.arena import Arena
from earl_envs.kernels.connect_four import RULES
from numba import njit


@njit
def _second_number(block, number, size):
    # The second number of an array, as the compiled code of its type finds it.
    offset = arena.int64s(block, 0)[number]
    if size == 8:
        return float(arena.int64s(block, offset)[1])
    if size == 4:
        return float(arena.int32s(block, offset)[1])
    return float(arena.int8s(block, offset)[1])


@njit
def _scores(block):
    return arena.float32s(block, arena.int64s(block, 0)[arena.RETURNS])[1]


@njit
def _settings(block):
    head = arena.int64s(block, 0)
    return head[arena.NUM_GAMES], head[arena.AUTORESET]


@pytest.mark.parametrize("num_games", [2, 5, 64])
def test_arrays_lie_apart_and_are_found_by_compiled_code(num_games):
    memory = Arena(RULES, num_games=num_games, autoreset=True)
    for number, array in enumerate(memory.arrays):
        array[...] = number + 1
    for number, array in enumerate(memory.arrays):
        expected = 1 if array.dtype == bool else number + 1
        assert (array == expected).all()
        assert array.ctypes.data % 64 == 0
        if array.dtype != np.float32:
            assert _second_number(memory.block, number, array.itemsize) == expected
    assert _scores(memory.block) == arena.RETURNS + 1


def test_head_keeps_the_settings():
    assert _settings(Arena(RULES, num_games=5, autoreset=True).block) == (5, 1)
    assert _settings(Arena(RULES, num_games=7, autoreset=False).block) == (7, 0)
