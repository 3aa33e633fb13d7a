"""Columns as one flat byte buffer, and back."""

from itertools import accumulate

import torch
from jaxtyping import UInt8
from torch import Tensor

from earl_dispatch.columns import LENGTH_BYTES, Columns, Schema


def pack(columns: Columns) -> UInt8[Tensor, "bytes"]:
    """Write rows end to end: lengths, then each per-token and per-row column in schema order.

    Bytes are copied, never converted, so that NaN payloads and every dtype survive.
    """
    schema = columns.schema()
    parts = [columns.lengths]
    parts += [columns.per_token[name] for name, _ in schema.per_token]
    parts += [columns.per_row[name] for name, _ in schema.per_row]
    return torch.cat([part.contiguous().view(torch.uint8) for part in parts])


def unpack(buffer: UInt8[Tensor, "bytes"], schema: Schema, *, num_rows: int) -> Columns:
    """Read what `pack` wrote.

    Args:
        buffer: Shape [bytes].
        schema: Schema of the packed columns.
        num_rows: Rows in the buffer; their lengths are read from it.
    """
    lengths = _read(buffer[: num_rows * LENGTH_BYTES], torch.int64)
    num_tokens = int(lengths.sum())
    dtypes = [dtype for _, dtype in schema.per_token + schema.per_row]
    sizes = [num_tokens] * len(schema.per_token) + [num_rows] * len(schema.per_row)
    num_bytes = [dtype.itemsize * size for dtype, size in zip(dtypes, sizes, strict=True)]
    ends = list(accumulate(num_bytes, initial=num_rows * LENGTH_BYTES))
    assert ends[-1] == buffer.shape[0], f"{ends[-1]} bytes expected, {buffer.shape[0]} in buffer"
    values = iter(
        _read(buffer[start:stop], dtype)
        for dtype, start, stop in zip(dtypes, ends[:-1], ends[1:], strict=True)
    )
    return Columns(
        lengths=lengths,
        per_token={name: next(values) for name, _ in schema.per_token},
        per_row={name: next(values) for name, _ in schema.per_row},
    )


def _read(part: UInt8[Tensor, "bytes"], dtype: torch.dtype) -> Tensor:
    # A view as a wider dtype needs an aligned start, which a slice of the buffer need not have.
    return part.clone().view(dtype)
