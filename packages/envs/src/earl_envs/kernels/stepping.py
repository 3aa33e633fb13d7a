"""The loops of a compiled batch."""

from collections.abc import Callable
from typing import Any, no_type_check
from zlib import crc32

import numpy as np
from numba import njit, prange
from numba.extending import register_jitable
from numpy.typing import NDArray

from earl_envs.kernels import arena, bits, jit
from earl_envs.kernels.arena import (
    AUTORESET,
    BOARDS,
    DONE,
    DRAWN,
    EPISODES,
    FINAL,
    INDICES,
    KEYS,
    LEGAL,
    MASK,
    MOVES,
    NUM_GAMES,
    NUM_MOVES,
    OBSERVATIONS,
    RETURNS,
    SEATS,
    SEEN,
    float32s,
    int8s,
    int32s,
    int64s,
)
from earl_envs.kernels.bits import split_mix
from earl_envs.kernels.rules import RUNNING, KernelRules

UNSOUND = -1
"""What a step returns instead of the number of finished games when it refuses the moves."""

CHUNK_GAMES = 1024
"""Games that one thread steps in a row."""

Loop = Callable[..., Any]


@no_type_check
def make_step(rules: KernelRules, *, everyone: bool, parallel: bool) -> Loop:
    """Compile `step(block, num, source) -> number of games it finished, or UNSOUND`.

    It makes the first `num` moves of `source`, which is ACTIONS or DRAWN: in INDICES, or with
    `everyone` in all games in order.
    """
    move, is_legal, show, show_mask = rules.move, rules.is_legal, rules.show, rules.show_mask
    constants = (*rules.start, rules.max_moves)
    slot = _in_order if everyone else _as_named
    version = _version(rules, parallel=parallel)

    def step(block: NDArray[np.uint8], num: int, source: int) -> int:
        _ = version
        if not everyone and not _distinct(block, num):
            return UNSOUND
        num_unsound = 0
        for chunk in prange(-(-num // CHUNK_GAMES)):
            first = chunk * CHUNK_GAMES
            last = min(num, first + CHUNK_GAMES)
            num_unsound += _count_unsound(block, source, first, last, slot, is_legal)
        if num_unsound:
            return UNSOUND
        if not everyone:
            _forget_finished(block)
        num_finished = 0
        for chunk in prange(-(-num // CHUNK_GAMES)):
            first = chunk * CHUNK_GAMES
            span = (first, min(num, first + CHUNK_GAMES))
            num_finished += _advance(block, source, span, slot, move, show, show_mask, constants)
        return num_finished

    return _compiled(step, parallel=parallel)


@no_type_check
def make_draw(rules: KernelRules, *, everyone: bool, parallel: bool) -> Loop:
    """Compile `draw(block, num)`: fills DRAWN, for INDICES or in order, with random moves."""
    pick, slot = rules.pick, _in_order if everyone else _as_named
    version = _version(rules, parallel=parallel)

    def draw(block: NDArray[np.uint8], num: int) -> None:
        _ = version
        for chunk in prange(-(-num // CHUNK_GAMES)):
            first = chunk * CHUNK_GAMES
            _draw(block, first, min(num, first + CHUNK_GAMES), slot, pick)

    return _compiled(draw, parallel=parallel)


def _compiled(loop: Loop, *, parallel: bool) -> Loop:
    try:
        return njit(cache=True, parallel=parallel)(loop)
    except RuntimeError:  # there is no folder where the code could be kept
        return njit(parallel=parallel)(loop)


@register_jitable
@no_type_check
def _in_order(indices: NDArray[np.int64], k: int) -> int:
    return k


@register_jitable
@no_type_check
def _as_named(indices: NDArray[np.int64], k: int) -> int:
    return indices[k]


@register_jitable
@no_type_check
def _count_unsound(
    block: NDArray[np.uint8], source: int, first: int, last: int, slot: Loop, is_legal: Loop
) -> int:
    head = int64s(block, 0)
    legal, seats = int64s(block, head[LEGAL]), int8s(block, head[SEATS])
    actions, indices = int64s(block, head[source]), int64s(block, head[INDICES])
    num_unsound = 0
    for k in range(first, last):
        i = slot(indices, k)
        num_unsound += not (seats[i] >= 0 and is_legal(legal[i], actions[k]))
    return num_unsound


@register_jitable
@no_type_check
def _advance(
    block: NDArray[np.uint8],
    source: int,
    span: tuple[int, int],
    slot: Loop,
    move: Loop,
    show: Loop,
    show_mask: Loop,
    constants: tuple[int, int, int, int],
) -> int:
    head = int64s(block, 0)
    autoreset = head[AUTORESET] != 0
    start_own, start_other, start_legal, max_moves = constants
    boards, legal = int64s(block, head[BOARDS]), int64s(block, head[LEGAL])
    actions, indices = int64s(block, head[source]), int64s(block, head[INDICES])
    num_moves, episodes = int32s(block, head[NUM_MOVES]), int32s(block, head[EPISODES])
    seats, moves = int8s(block, head[SEATS]), int8s(block, head[MOVES])
    done, returns = int8s(block, head[DONE]), float32s(block, head[RETURNS])
    shown, final, mask = head[OBSERVATIONS], head[FINAL], head[MASK]
    num_finished = 0
    for k in range(span[0], span[1]):
        i = slot(indices, k)
        n = num_moves[i]
        moves[i * max_moves + n] = actions[k]
        own, other, choices, outcome = move(boards[2 * i], boards[2 * i + 1], actions[k])
        over = outcome != RUNNING
        score = outcome if over else 0
        returns[2 * i + (n & 1)] = score
        returns[2 * i + 1 - (n & 1)] = -score
        done[i] = over
        n += 1
        seat = n & 1
        if over:
            num_finished += 1
            if seat == 1:
                own, other = other, own
            seat = -1
            if autoreset:
                show(block, final, i, own, other)
                own, other, choices = start_own, start_other, start_legal
                episodes[i] += 1
                n, seat = 0, 0
        boards[2 * i], boards[2 * i + 1], legal[i] = own, other, choices
        num_moves[i], seats[i] = n, seat
        show(block, shown, i, own, other)
        show_mask(block, mask, i, choices, seat >= 0)
    return num_finished


@register_jitable
@no_type_check
def _draw(block: NDArray[np.uint8], first: int, last: int, slot: Loop, pick: Loop) -> None:
    head = int64s(block, 0)
    legal, keys = int64s(block, head[LEGAL]), int64s(block, head[KEYS])
    actions, indices = int64s(block, head[DRAWN]), int64s(block, head[INDICES])
    num_moves, episodes = int32s(block, head[NUM_MOVES]), int32s(block, head[EPISODES])
    for k in range(first, last):
        i = slot(indices, k)
        place = (np.int64(episodes[i]) << 32) + num_moves[i] + 1
        actions[k] = pick(legal[i], split_mix(keys[i], place))


@register_jitable
@no_type_check
def _distinct(block: NDArray[np.uint8], num: int) -> bool:
    """Tell whether the first of INDICES are different games of the batch."""
    head = int64s(block, 0)
    indices, seen = int64s(block, head[INDICES]), int8s(block, head[SEEN])
    num_seen = 0
    while num_seen < num:
        i = indices[num_seen]
        if i < 0 or i >= head[NUM_GAMES] or seen[i] != 0:
            break
        seen[i] = 1
        num_seen += 1
    for k in range(num_seen):
        seen[indices[k]] = 0
    return num_seen == num


@register_jitable
@no_type_check
def _forget_finished(block: NDArray[np.uint8]) -> None:
    """With autoreset, clear what earlier steps finished."""
    head = int64s(block, 0)
    if head[AUTORESET]:
        returns, done = float32s(block, head[RETURNS]), int8s(block, head[DONE])
        for i in range(head[NUM_GAMES]):
            done[i] = 0
            returns[2 * i] = returns[2 * i + 1] = 0


def _version(rules: KernelRules, *, parallel: bool) -> int:
    # Code on disk is found by the loop's own file and the values it closes over, not by the files
    # of what it calls.
    checksum = int(parallel)
    for path in (arena.__file__, bits.__file__, jit.__file__, rules.source):
        with open(path, "rb") as file:
            checksum = crc32(file.read(), checksum)
    return checksum
