"""The compiled loops alone: checks before moves, and what they return."""

import subprocess
import sys

import numpy as np
import pytest
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.kernels import arena
from earl_envs.kernels.arena import Arena
from earl_envs.kernels.batch import KernelBatch
from earl_envs.kernels.stepping import CHUNK_GAMES, NOWHERE, UNSOUND, make_draw, make_step
from earl_envs.kernels.tic_tac_toe import RULES

STEP = make_step(RULES, everyone=False, parallel=False)
DRAW = make_draw(RULES, everyone=False, parallel=False)


@pytest.fixture
def memory() -> Arena:
    """Three games at their start."""
    made = Arena(RULES, num_games=3, autoreset=False)
    made.arrays[arena.LEGAL][:] = RULES.start[2]
    return made


def _moves(memory: Arena, actions: list[int], indices: list[int]) -> int:
    memory.arrays[arena.ACTIONS][: len(actions)] = actions
    memory.arrays[arena.INDICES][: len(indices)] = indices
    return STEP(memory.block.ctypes.data, len(actions), arena.ACTIONS, NOWHERE, False)


@pytest.mark.parametrize(
    ("actions", "indices"),
    [
        ([1, 2], [0, 0]),
        ([1, 2], [0, 3]),
        ([1, 2], [0, -1]),
        ([1, 9], [0, 1]),
        ([1, -1], [0, 1]),
        ([1, 0], [0, 2]),
        ([1, 2**40], [0, 1]),
    ],
)
def test_unsound_moves_are_refused_together(memory, actions, indices):
    assert _moves(memory, [0], [2]) == 0
    before = memory.block.copy()
    assert _moves(memory, actions, indices) == UNSOUND
    changed = np.flatnonzero(before != memory.block)
    call = [memory.arrays[number].ctypes.data for number in (arena.ACTIONS, arena.INDICES)]
    assert all(
        any(start <= memory.block.ctypes.data + place < start + 24 for start in call)
        for place in changed.tolist()
    )
    assert _moves(memory, [1, 2], [0, 1]) == 0


def test_returns_how_many_games_a_step_finished(memory):
    for action in (0, 3, 1, 4):
        assert _moves(memory, [action] * 2, [0, 2]) == 0
    assert _moves(memory, [2, 8], [0, 2]) == 1
    assert memory.arrays[arena.RETURNS].tolist() == [[1, -1], [0, 0], [0, 0]]
    assert _moves(memory, [5], [0]) == UNSOUND


def test_draw_fills_in_legal_actions_of_the_games_named(memory):
    memory.arrays[arena.LEGAL][:] = [1 << 4, 1 << 7, 1 << 2]
    memory.arrays[arena.INDICES][:2] = [2, 0]
    DRAW(memory.block.ctypes.data, 2, arena.DRAWN)
    assert memory.arrays[arena.DRAWN][:2].tolist() == [2, 4]


def test_a_step_draws_the_next_moves_where_it_is_told_to():
    many = 2 * CHUNK_GAMES + 5
    ahead, asked = (KernelBatch(TicTacToe(), seeds=range(many), autoreset=True) for _ in range(2))
    step = make_step(RULES, everyone=True, parallel=False)
    draw = make_draw(RULES, everyone=True, parallel=False)
    for batch in (ahead, asked):
        draw(batch._address, many, arena.DRAWN)
    for turn in range(20):
        source, following = (arena.DRAWN, arena.DRAWN_NEXT)[:: 1 - 2 * (turn % 2)]
        sound = turn % 3 == 0
        finished = step(ahead._address, many, source, following, sound)
        assert step(asked._address, many, source, NOWHERE, sound) == finished == ahead.done.sum()
        draw(asked._address, many, following)
        np.testing.assert_array_equal(ahead._arrays[following], asked._arrays[following])
    assert ahead.episodes.min() > 0


def test_games_in_step_write_their_moves_side_by_side():
    many = CHUNK_GAMES + 3
    batch = KernelBatch(TicTacToe(), seeds=range(many), autoreset=True)
    for turn in range(25):
        actions = batch.random_actions().copy()
        batch.step(actions)
        np.testing.assert_array_equal(batch._arrays[arena.MOVES][turn % 9], actions)


@pytest.mark.slow
def test_parallel_loops_make_the_same_moves():
    many = 3 * CHUNK_GAMES + 5
    serial, parallel = (
        KernelBatch(TicTacToe(), seeds=range(many), autoreset=True) for _ in range(2)
    )
    step, draw = (make(RULES, everyone=True, parallel=True) for make in (make_step, make_draw))
    for turn in range(30):
        serial.step(serial.random_actions())
        if turn == 0:
            draw(parallel._address, many, arena.DRAWN)
        source, following = (arena.DRAWN, arena.DRAWN_NEXT)[:: 1 - 2 * (turn % 2)]
        sound = turn % 3 == 0
        step(parallel._address, many, source, following, sound)
    np.testing.assert_array_equal(parallel._block[192:], serial._block[192:])


@pytest.mark.slow
def test_loops_work_where_compiled_code_cannot_be_kept():
    code = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []
import earl_envs
batch = earl_envs.make_batch("earl/TicTacToe-v0", batch_size=1, seed=0, backend="numba")
batch.step([4])
assert batch.moves(0) == (4,)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
