"""Log-probabilities in fewer bytes, with a bound on the error."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from jaxtyping import Float32, Float64, Int8
from torch import Tensor

from earl_dispatch.columns import Columns
from earl_dispatch.plan import TransferPlan

Compression = Mapping[str, str]
"""Per-token float32 column -> how it travels:

- "bfloat16": 2 bytes. |x' - x| <= 2^-8 |x| for 2^-126 <= |x| <= (2 - 2^-7) 2^127 (round to nearest
  with 8 significant bits), <= 2^-134 below; infinities and NaNs stay what they are.
- "int8_delta:base": 1 byte, and 8 bytes a row. The difference to the per-token float32 column
  `base`, which travels as it is, in steps of s = max |x - base| / 127 over the row:
  |x' - x| <= (1 + 10^-9) s / 2 + 2^-24 |x'| + 2^-149: besides half a step the rounding of the steps
  in float64, of the sum to float32, and of what is smaller than any normal number. Values have
  to be finite, and the source's rows in one chunk.

The error is made once, at the source, whether or not a row leaves its rank: what a rank gets does
not depend on the transport or on the map.
"""

_DELTA = "int8_delta:"
_MOST_STEPS = 127
_SAVED_BYTES = {"bfloat16": 2, "int8_delta": 3}
_SCALE_BYTES = torch.float64.itemsize


def compressed_plan(plan: TransferPlan, compression: Compression) -> TransferPlan:
    """Return the plan with the bytes of compressed columns; messages and rows stay the same."""
    saved = sum(_SAVED_BYTES[method.split(":")[0]] for method in compression.values())
    scales = sum(_SCALE_BYTES for method in compression.values() if method.startswith(_DELTA))
    sizes = replace(
        plan.sizes,
        token_bytes=plan.sizes.token_bytes - saved,
        value_bytes=plan.sizes.value_bytes + scales,
    )
    return replace(plan, sizes=sizes)


def compression_problem(columns: Columns, compression: Compression, *, num_chunks: int) -> str:
    """Say why columns cannot be compressed in this way; empty if they can.

    Args:
        columns: Of one rank.
        compression: How columns travel.
        num_chunks: Of the source layout.
    """
    for name, method in compression.items():
        problem = _method_problem(name, method, compression, num_chunks)
        needed = [name, method.removeprefix(_DELTA)] if method.startswith(_DELTA) else [name]
        problem = problem or _column_problem(columns, needed, finite=len(needed) > 1)
        if problem:
            return problem
    return ""


def compress_columns(columns: Columns, compression: Compression) -> Columns:
    """Return columns as they travel."""
    per_token, per_row = dict(columns.per_token), dict(columns.per_row)
    for name, method in compression.items():
        if method.startswith(_DELTA):
            base = columns.per_token[method.removeprefix(_DELTA)]
            steps, scale = _to_steps(columns.per_token[name], base, columns.lengths)
            per_token[name], per_row[_scale_of(name)] = steps, scale
        else:
            per_token[name] = columns.per_token[name].bfloat16()
    return replace(columns, per_token=per_token, per_row=per_row)


def decompress_columns(columns: Columns, compression: Compression) -> Columns:
    """Return float32 columns again."""
    per_token, per_row = dict(columns.per_token), dict(columns.per_row)
    for name, method in compression.items():
        if method.startswith(_DELTA):
            base = columns.per_token[method.removeprefix(_DELTA)]
            scale = per_row.pop(_scale_of(name)).repeat_interleave(columns.lengths)
            per_token[name] = (base.double() + columns.per_token[name] * scale).float()
        else:
            per_token[name] = columns.per_token[name].float()
    return replace(columns, per_token=per_token, per_row=per_row)


def _to_steps(
    values: Float32[Tensor, "tokens"], base: Float32[Tensor, "tokens"], lengths: Tensor
) -> tuple[Int8[Tensor, "tokens"], Float64[Tensor, "rows"]]:
    """Return the differences in steps of each row, and the size of the row's step."""
    difference = values.double() - base.double()
    rows = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
    largest = difference.new_zeros(len(lengths)).scatter_reduce(0, rows, difference.abs(), "amax")
    scale = largest / _MOST_STEPS
    # A row without differences has steps of size 0, of which it needs none.
    steps = difference / scale.where(scale > 0, 1.0)[rows]
    return steps.round().clamp(-_MOST_STEPS, _MOST_STEPS).to(torch.int8), scale


def _scale_of(name: str) -> str:
    return f"{name}:scale"


def _method_problem(name: str, method: str, compression: Compression, num_chunks: int) -> str:
    if method == "bfloat16":
        return ""
    if not method.startswith(_DELTA):
        return f"a method is 'bfloat16' or 'int8_delta:base', that of {name!r} is {method!r}"
    if method.removeprefix(_DELTA) in compression:
        return f"the base of {name!r} travels as it is, {method.removeprefix(_DELTA)!r} does not"
    if num_chunks > 1:
        return f"int8_delta of {name!r} needs rows in 1 chunk, the source has {num_chunks}"
    return ""


def _column_problem(columns: Columns, needed: list[str], *, finite: bool) -> str:
    if _scale_of(needed[0]) in columns.per_row:
        return f"int8_delta adds a column {_scale_of(needed[0])!r}, there is one already"
    for name in needed:
        column = columns.per_token.get(name)
        if column is None or column.dtype != torch.float32:
            found = "no such column" if column is None else str(column.dtype)
            return f"compression needs per-token float32 values, {name!r} is {found}"
        if finite and not bool(column.isfinite().all()):
            return f"int8_delta needs finite values, {name!r} has others"
    return ""
