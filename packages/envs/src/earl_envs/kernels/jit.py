"""What compiled loops need besides arithmetic: bits as bytes, and the n-th of some bits."""

from collections.abc import Callable
from typing import Any, no_type_check

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, register_jitable
from numpy.typing import NDArray

from earl_envs.kernels import bits

for _function in (
    bits.count,
    bits.split_mix,
    bits.lines_of_three,
    bits.lines_of_four,
    bits.landing,
):
    register_jitable(_function)


@no_type_check
def _spreader(width: int) -> Callable[..., None]:
    @intrinsic
    def spread(typing_context: object, array: types.Type, offset: object, word: object) -> object:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
            target, place, number = values
            data = context.make_array(signature.args[0])(context, builder, target).data
            flags = number if width == 64 else builder.trunc(number, ir.IntType(width))
            flags = builder.bitcast(flags, ir.VectorType(ir.IntType(1), width))
            cells = builder.zext(flags, ir.VectorType(ir.IntType(8), width))
            pointer = builder.bitcast(builder.gep(data, [place]), cells.type.as_pointer())
            builder.store(cells, pointer, align=1)
            return context.get_dummy_value()

        return types.void(array, types.int64, types.int64), emit

    return spread


# `spread(array, offset, word)` writes the lowest bits of a number as so many bytes of 0 or 1: one
# vector instruction where the processor has it. The array must have room for all of them.
spread_4 = _spreader(4)
spread_8 = _spreader(8)
spread_16 = _spreader(16)
spread_32 = _spreader(32)
spread_64 = _spreader(64)


@register_jitable
@no_type_check
def nth(word: int, n: int) -> int:
    """Return the number of the bit that has `n` set ones below it."""
    for _ in range(n):
        word &= word - 1
    return bits.count((word & -word) - 1)


def _nth_of_nine() -> NDArray[np.int8]:
    table = np.zeros((2**9, 9), np.int8)
    for word in range(2**9):
        places = [place for place in range(9) if word >> place & 1]
        table[word, : len(places)] = places
    return table


_NTH_OF_NINE = _nth_of_nine()


@register_jitable
@no_type_check
def nth_of_nine(word: int, n: int) -> int:
    """Do what `nth` does, for bits 0 to 8 only, without a branch."""
    return _NTH_OF_NINE[word, n]
