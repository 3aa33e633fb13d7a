"""All arrays of a compiled batch in one block of memory.

A compiled function unpacks every array argument anew at each call, which takes longer than a move
does. So it gets the address of one block, in whose head it finds where the arrays begin.
"""

from collections.abc import Callable
from typing import Any, final, no_type_check

import numpy as np
from numba import carray, types
from numba.extending import intrinsic, register_jitable
from numpy.typing import NDArray

from earl_envs.kernels.rules import KernelRules

OWN, OTHER, LEGAL, KEYS, ACTIONS, INDICES, RETURNS, NUM_MOVES, EPISODES = range(9)
SEATS, DONE, SEEN, MOVES, OBSERVATIONS, FINAL, MASK, STARTS = range(9, 17)
DRAWN, DRAWN_NEXT, OUTCOMES, FINISHED = range(17, 21)
"""Numbers of the regions. OWN and OTHER are the cells of the seat to move and of its opponent, of
seats 0 and 1 once the game is over; LEGAL are the moves as bits, KEYS the slots' seeds; SEEN marks
the games named in a call. ACTIONS are the moves that a caller gave, DRAWN and DRAWN_NEXT those
drawn at random. MOVES are rows in a ring, of which a game fills one after the other from its one of
STARTS: games that step together write side by side. OUTCOMES are those of the moves of a call,
FINISHED the games that each chunk of them finished."""

AUTORESET, NUM_GAMES = 22, 23
"""Places of two numbers in the head, after the offsets of the regions in bytes."""

_HEAD_BYTES = 192
_ALIGNMENT_BYTES = 64


@no_type_check
def _pointer_to(kind: types.Type) -> Callable[..., Any]:
    @intrinsic
    def pointer(typing_context: object, block: object, offset: object) -> object:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> object:  # noqa: ANN401
            data = context.make_array(signature.args[0])(context, builder, values[0]).data
            place = builder.gep(data, [values[1]])
            return builder.bitcast(place, context.get_value_type(signature.return_type))

        return types.CPointer(kind)(block, types.int64), emit

    return pointer


# `int64s(block, offset)` and so on: where the numbers lie that begin so many bytes after the start.
# An index into a pointer is taken as it is; one into an array is first asked for its sign, and a
# slice of an array counts its users, which costs as much as the moves.
int64s, int32s, int8s = _pointer_to(types.int64), _pointer_to(types.int32), _pointer_to(types.int8)
float32s = _pointer_to(types.float32)


@intrinsic
@no_type_check
def _bytes_at(typing_context: object, address: object) -> object:
    def emit(context: Any, builder: Any, signature: Any, values: Any) -> object:  # noqa: ANN401
        return builder.inttoptr(values[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.uint8)(types.int64), emit


@register_jitable
@no_type_check
def block_at(address: int) -> NDArray[np.uint8]:
    """Return the block that begins at an address; its length is not known here, nor looked at."""
    return carray(_bytes_at(address), (1,))


@final
class Arena:
    """The block, and the arrays in it by the number of their region."""

    def __init__(self, rules: KernelRules, *, num_games: int, autoreset: bool) -> None:
        shapes = _shapes(rules, num_games)
        sizes = [np.dtype(kind).itemsize * int(np.prod(shape)) for kind, shape in shapes]
        # Every array begins a line of the cache: vectors do not reach over two lines, and threads
        # that take so many games each do not share any.
        padded = [-(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES for size in sizes]
        offsets = np.cumsum([_HEAD_BYTES, *padded])
        room = np.zeros(offsets[-1] + _ALIGNMENT_BYTES, np.uint8)
        skipped = -room.ctypes.data % _ALIGNMENT_BYTES
        self.block = room[skipped : skipped + int(offsets[-1])]
        head = self.block[:_HEAD_BYTES].view(np.int64)
        head[: len(offsets)] = offsets
        head[AUTORESET], head[NUM_GAMES] = autoreset, num_games
        self.arrays: list[NDArray[Any]] = [
            self.block[offset : offset + size].view(kind).reshape(shape)
            for offset, size, (kind, shape) in zip(offsets, sizes, shapes, strict=False)
        ]


def _shapes(rules: KernelRules, num_games: int) -> list[tuple[type, tuple[int, ...]]]:
    planes = (num_games, *rules.planes_shape)
    return [
        (np.int64, (num_games,)),
        (np.int64, (num_games,)),
        (np.int64, (num_games,)),
        (np.int64, (num_games,)),
        (np.int64, (num_games,)),
        (np.int64, (num_games,)),
        (np.float32, (num_games, 2)),
        (np.int32, (num_games,)),
        (np.int32, (num_games,)),
        (np.int8, (num_games,)),
        (np.bool_, (num_games,)),
        (np.uint8, (num_games,)),
        (np.int8, (rules.max_moves, num_games)),
        (np.uint8, planes),
        (np.uint8, planes),
        (np.bool_, (num_games, rules.num_actions)),
        (np.int8, (num_games,)),
        (np.int64, (num_games,)),
        (np.int64, (num_games,)),
        (np.int8, (num_games,)),
        (np.int32, (num_games,)),
    ]
