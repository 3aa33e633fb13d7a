"""The loops of a compiled batch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, no_type_check
from zlib import crc32

import numpy as np
from numba import njit, prange, types
from numba.extending import register_jitable
from numpy.typing import NDArray

from earl_envs.kernels import arena
from earl_envs.kernels.arena import block_at, float32s, int8s, int32s, int64s
from earl_envs.kernels.bits import split_mix
from earl_envs.kernels.rules import RUNNING, KernelRules

UNSOUND = -1
"""What a step returns instead of the number of finished games when it refuses the moves."""

NOWHERE = -1
"""The region for moves that need not be drawn."""

CHUNK_GAMES = 256
"""Games that one thread takes through all loops of a step before the next ones: so many stay in the
cache that is nearest to the core."""

Loop = Callable[..., Any]

_STEP = types.int64(types.int64, types.int64, types.int64, types.int64, types.boolean)
_DRAW = types.void(types.int64, types.int64, types.int64)


@no_type_check
def make_step(rules: KernelRules, *, everyone: bool, parallel: bool) -> Loop:
    """Compile `step(address, num, source, following, sound) -> games it finished, or UNSOUND`.

    The address is that of the block. It makes the first `num` moves of `source`, which is ACTIONS
    or where moves were drawn: in INDICES, or with `everyone` in all games in order. Unless they are
    known to be `sound`, all are checked before the first is made. Then it draws the next ones into
    `following`, unless that is NOWHERE.
    """
    move, is_legal, pick = rules.move, rules.is_legal, rules.pick
    show, show_mask, max_moves = rules.show, rules.show_mask, rules.max_moves
    start = (*rules.start, max_moves)
    slot = _in_order if everyone else _as_named
    version = _version(parallel=parallel)

    def step(address: int, num: int, source: int, following: int, sound: bool) -> int:
        _ = version
        block = block_at(address)
        if not everyone and not _distinct(block, num):
            return UNSOUND
        # Waking the threads once more takes longer than the checks.
        if not sound:
            num_unsound = 0
            for chunk in prange(-(-num // CHUNK_GAMES)):
                first = chunk * CHUNK_GAMES
                last = min(num, first + CHUNK_GAMES)
                num_unsound += _count_unsound(block, source, first, last, slot, is_legal)
            if num_unsound:
                return UNSOUND
        if not everyone:
            _forget_finished(block, 0, int64s(block, 0)[arena.NUM_GAMES])
        num_finished = 0
        for chunk in prange(-(-num // CHUNK_GAMES)):
            span = (chunk * CHUNK_GAMES, min(num, (chunk + 1) * CHUNK_GAMES))
            if everyone:
                _forget_finished(block, span[0], span[1])
            _move(block, source, span, slot, move)
            _keep(block, source, span, slot, max_moves)
            finished = _show(block, span, slot, show, show_mask)
            _finish(block, span[0], finished, show, show_mask, start)
            if following != NOWHERE:
                _draw(block, following, span, slot, pick)
            num_finished += finished
        return num_finished

    return _compiled(step, _STEP, parallel=parallel)


@no_type_check
def make_draw(rules: KernelRules, *, everyone: bool, parallel: bool) -> Loop:
    """Compile `draw(address, num, target)`: random moves for INDICES, or for all games in order."""
    pick, slot = rules.pick, _in_order if everyone else _as_named
    version = _version(parallel=parallel)

    def draw(address: int, num: int, target: int) -> None:
        _ = version
        block = block_at(address)
        for chunk in prange(-(-num // CHUNK_GAMES)):
            span = (chunk * CHUNK_GAMES, min(num, (chunk + 1) * CHUNK_GAMES))
            _draw(block, target, span, slot, pick)

    return _compiled(draw, _DRAW, parallel=parallel)


def entry_point(loop: Any) -> Loop:  # noqa: ANN401 - numba has no type of it
    """Return what a compiled loop calls once it has looked up the types of its arguments.

    The look-up takes as long as a move; the loops here have one signature.
    """
    (compiled,) = loop.overloads.values()
    return compiled.entry_point


def _compiled(loop: Loop, signature: Any, *, parallel: bool) -> Loop:  # noqa: ANN401 - numba's
    try:
        return njit(signature, cache=True, parallel=parallel)(loop)
    except RuntimeError:  # there is no folder where the code could be kept
        return njit(signature, parallel=parallel)(loop)


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
    legal, seats = int64s(block, head[arena.LEGAL]), int8s(block, head[arena.SEATS])
    actions, indices = int64s(block, head[source]), int64s(block, head[arena.INDICES])
    num_unsound = 0
    for k in range(first, last):
        i = slot(indices, k)
        seat, sound = seats[i], is_legal(legal[i], actions[k])
        num_unsound += not (seat >= 0 and sound)
    return num_unsound


# Loops of pure arithmetic over few arrays come apart from those that write bytes: a compiler makes
# several games of them at once.


@register_jitable
@no_type_check
def _move(
    block: NDArray[np.uint8], source: int, span: tuple[int, int], slot: Loop, move: Loop
) -> None:
    head = int64s(block, 0)
    own, other = int64s(block, head[arena.OWN]), int64s(block, head[arena.OTHER])
    actions, indices = int64s(block, head[source]), int64s(block, head[arena.INDICES])
    legal, outcomes = int64s(block, head[arena.LEGAL]), int8s(block, head[arena.OUTCOMES])
    for k in range(span[0], span[1]):
        i = slot(indices, k)
        own[i], other[i], legal[i], outcomes[k] = move(own[i], other[i], actions[k])


@register_jitable
@no_type_check
def _keep(
    block: NDArray[np.uint8], source: int, span: tuple[int, int], slot: Loop, max_moves: int
) -> None:
    """Note the moves, and whose turn it is next."""
    head = int64s(block, 0)
    num_games = head[arena.NUM_GAMES]
    actions, indices = int64s(block, head[source]), int64s(block, head[arena.INDICES])
    num_moves, seats = int32s(block, head[arena.NUM_MOVES]), int8s(block, head[arena.SEATS])
    starts, moves = int8s(block, head[arena.STARTS]), int8s(block, head[arena.MOVES])
    for k in range(span[0], span[1]):
        i = slot(indices, k)
        moves[_row(starts[i], num_moves[i], max_moves) * num_games + i] = actions[k]
    for k in range(span[0], span[1]):
        i = slot(indices, k)
        n = num_moves[i] + 1
        num_moves[i], seats[i] = n, n & 1


@register_jitable
@no_type_check
def _row(start: int, num_moves: int, num_rows: int) -> int:
    row = start + num_moves
    return row - (num_rows if row >= num_rows else 0)  # a division takes as long as a move


@register_jitable
@no_type_check
def _show(
    block: NDArray[np.uint8], span: tuple[int, int], slot: Loop, show: Loop, show_mask: Loop
) -> int:
    """Write observations and masks; return how many games are over, which FINISHED names."""
    head = int64s(block, 0)
    own, other = int64s(block, head[arena.OWN]), int64s(block, head[arena.OTHER])
    indices, outcomes = int64s(block, head[arena.INDICES]), int8s(block, head[arena.OUTCOMES])
    legal, finished = int64s(block, head[arena.LEGAL]), int32s(block, head[arena.FINISHED])
    shown, mask = head[arena.OBSERVATIONS], head[arena.MASK]
    num_finished = 0
    for k in range(span[0], span[1]):
        i = slot(indices, k)
        show(block, shown, i, own[i], other[i])
        show_mask(block, mask, i, legal[i], True)
        # Nobody can foresee when a game ends, so there is no branch.
        finished[span[0] + num_finished] = i
        outcome = outcomes[k]
        outcomes[span[0] + num_finished] = outcome
        num_finished += outcome != RUNNING
    return num_finished


@register_jitable
@no_type_check
def _finish(
    block: NDArray[np.uint8],
    first: int,
    num_finished: int,
    show: Loop,
    show_mask: Loop,
    start: tuple[int, int, int, int],
) -> None:
    """Score the games of FINISHED; with autoreset, begin the next ones of their slots."""
    head = int64s(block, 0)
    autoreset = head[arena.AUTORESET] != 0
    own, other = int64s(block, head[arena.OWN]), int64s(block, head[arena.OTHER])
    legal, episodes = int64s(block, head[arena.LEGAL]), int32s(block, head[arena.EPISODES])
    num_moves = int32s(block, head[arena.NUM_MOVES])
    seats, starts = int8s(block, head[arena.SEATS]), int8s(block, head[arena.STARTS])
    done, returns = int8s(block, head[arena.DONE]), float32s(block, head[arena.RETURNS])
    finished, outcomes = int32s(block, head[arena.FINISHED]), int8s(block, head[arena.OUTCOMES])
    shown, final, mask = head[arena.OBSERVATIONS], head[arena.FINAL], head[arena.MASK]
    for k in range(first, first + num_finished):
        i = finished[k]
        score, second = outcomes[k], num_moves[i] & 1
        returns[2 * i + 1 - second], returns[2 * i + second] = score, -score
        done[i] = 1
        mine, theirs = own[i], other[i]
        own[i], other[i] = (theirs, mine) if second else (mine, theirs)
        seats[i] = -1
        if autoreset:
            show(block, final, i, own[i], other[i])
            own[i], other[i], legal[i], seats[i] = start[0], start[1], start[2], 0
            starts[i] = _row(starts[i], num_moves[i], start[3])
            num_moves[i] = 0
            episodes[i] += 1
        show(block, shown, i, own[i], other[i])
        show_mask(block, mask, i, legal[i], seats[i] >= 0)


@register_jitable
@no_type_check
def _draw(
    block: NDArray[np.uint8], target: int, span: tuple[int, int], slot: Loop, pick: Loop
) -> None:
    head = int64s(block, 0)
    legal, keys = int64s(block, head[arena.LEGAL]), int64s(block, head[arena.KEYS])
    actions, indices = int64s(block, head[target]), int64s(block, head[arena.INDICES])
    num_moves, episodes = int32s(block, head[arena.NUM_MOVES]), int32s(block, head[arena.EPISODES])
    for k in range(span[0], span[1]):
        i = slot(indices, k)
        place = (np.int64(episodes[i]) << 32) + num_moves[i] + 1
        actions[k] = split_mix(keys[i], place)
    for k in range(span[0], span[1]):
        actions[k] = pick(legal[slot(indices, k)], actions[k])


@register_jitable
@no_type_check
def _distinct(block: NDArray[np.uint8], num: int) -> bool:
    """Tell whether the first of INDICES are different games of the batch."""
    head = int64s(block, 0)
    indices, seen = int64s(block, head[arena.INDICES]), int8s(block, head[arena.SEEN])
    num_seen = 0
    while num_seen < num:
        i = indices[num_seen]
        if i < 0 or i >= head[arena.NUM_GAMES] or seen[i] != 0:
            break
        seen[i] = 1
        num_seen += 1
    for k in range(num_seen):
        seen[indices[k]] = 0
    return num_seen == num


@register_jitable
@no_type_check
def _forget_finished(block: NDArray[np.uint8], first: int, last: int) -> None:
    """With autoreset, clear what earlier steps finished in a range of games."""
    head = int64s(block, 0)
    if head[arena.AUTORESET]:
        returns, done = int64s(block, head[arena.RETURNS]), int8s(block, head[arena.DONE])
        for i in range(first, last):
            done[i] = 0
        for i in range(first, last):
            returns[i] = 0  # both seats'


def _version(*, parallel: bool) -> int:
    # Code on disk is found by the loop's own file and the values it closes over, not by the files
    # of what it calls.
    checksum = int(parallel)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        checksum = crc32(path.read_bytes(), checksum)
    return checksum
