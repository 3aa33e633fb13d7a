"""Pieces of rows as one flat byte buffer, and back."""

import torch
from jaxtyping import UInt8
from torch import Tensor

from earl_dispatch.columns import Columns, Schema, spread
from earl_dispatch.sizes import BITS_PER_BYTE


def pack(columns: Columns, *, with_values: bool) -> UInt8[Tensor, "bytes"]:
    """Write rows column by column in schema order: tokens, then, if asked, row and turn values.

    Neither lengths nor padding are written, since the plan knows them. Bytes are copied, never
    converted, so that NaN payloads and every dtype survive; a boolean takes a bit, and the bits of
    a row end at a whole byte.
    """
    schema = columns.schema()
    parts = [
        _pack_bits(columns.per_token[name], columns.lengths)
        if dtype == torch.bool
        else columns.per_token[name]
        for name, dtype in schema.per_token
    ]
    if with_values:
        parts += [columns.per_row[name] for name, _ in schema.per_row]
        parts += [columns.per_turn[name] for name, _ in schema.per_turn]
    empty = columns.lengths.new_empty(0, dtype=torch.uint8)
    return torch.cat([empty, *(part.contiguous().view(torch.uint8) for part in parts)])


def unpack(
    buffer: UInt8[Tensor, "bytes"],
    schema: Schema,
    *,
    lengths: Tensor,
    turns: Tensor | None,
) -> Columns:
    """Read what `pack` wrote.

    Args:
        buffer: Shape [bytes].
        schema: Schema of the packed columns.
        lengths: Tokens of each row, shape [rows].
        turns: Turns of each row, shape [rows]; None if the buffer holds tokens only.

    Returns:
        The rows, without row and turn values if the buffer has none.
    """
    reader = _Reader(buffer)
    per_token = {name: reader.tokens(dtype, lengths) for name, dtype in schema.per_token}
    if turns is None:
        assert reader.at_end(), f"{buffer.shape[0]} bytes in the buffer"
        return Columns(lengths=lengths, per_token=per_token)
    num_turns = int(turns.sum())
    columns = Columns(
        lengths=lengths,
        per_token=per_token,
        per_row={name: reader.values(dtype, len(lengths)) for name, dtype in schema.per_row},
        turns=turns,
        per_turn={name: reader.values(dtype, num_turns) for name, dtype in schema.per_turn},
    )
    assert reader.at_end(), f"{buffer.shape[0]} bytes in the buffer"
    return columns


class _Reader:
    """Reads values off a buffer one after the other."""

    def __init__(self, buffer: Tensor) -> None:
        self._buffer = buffer
        self._position = 0

    def values(self, dtype: torch.dtype, size: int) -> Tensor:
        # A view as a wider dtype needs an aligned start, which a slice of the buffer need not have.
        return self._take(size * dtype.itemsize).clone().view(dtype)

    def tokens(self, dtype: torch.dtype, lengths: Tensor) -> Tensor:
        if dtype != torch.bool:
            return self.values(dtype, int(lengths.sum()))
        return _unpack_bits(self._take(int(_bit_bytes(lengths).sum())), lengths)

    def at_end(self) -> bool:
        return self._position == self._buffer.shape[0]

    def _take(self, num_bytes: int) -> Tensor:
        self._position += num_bytes
        return self._buffer[self._position - num_bytes : self._position]


def _bit_bytes(lengths: Tensor) -> Tensor:
    """Bytes that the bits of each row take."""
    return (lengths + BITS_PER_BYTE - 1) // BITS_PER_BYTE


def _bit_places(lengths: Tensor) -> Tensor:
    """Where each token's bit stands when every row begins at a whole byte."""
    num_bytes = _bit_bytes(lengths)
    return spread((num_bytes.cumsum(0) - num_bytes) * BITS_PER_BYTE, lengths)


def _weights(device: torch.device) -> Tensor:
    return 1 << torch.arange(BITS_PER_BYTE, dtype=torch.uint8, device=device)


def _pack_bits(values: Tensor, lengths: Tensor) -> Tensor:
    num_bits = int(_bit_bytes(lengths).sum()) * BITS_PER_BYTE
    bits = torch.zeros(num_bits, dtype=torch.uint8, device=values.device)
    bits[_bit_places(lengths)] = values.view(torch.uint8)
    weighted = bits.view(-1, BITS_PER_BYTE) * _weights(values.device)
    return weighted.sum(1, dtype=torch.uint8)


def _unpack_bits(packed: Tensor, lengths: Tensor) -> Tensor:
    bits = packed[:, None].bitwise_and(_weights(packed.device)).ne(0)
    return bits.flatten()[_bit_places(lengths)]
