"""Pieces of rows as one flat byte buffer, and back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from jaxtyping import UInt8
from torch import Tensor

from earl_dispatch.columns import Columns, Schema
from earl_dispatch.ragged import Run, copy_pieces, join_runs
from earl_dispatch.sizes import BITS_PER_BYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where pieces of rows stand in columns."""

    rows: Sequence[int]
    """Place of each piece's row among the rows."""
    starts: Sequence[int]
    """Place of each piece's first token in the per-token columns."""
    lengths: Sequence[int]
    """Tokens of each piece."""
    turn_starts: Sequence[int]
    """Place of each row's first turn in the per-turn columns."""
    turns: Sequence[int]
    """Turns of each row."""
    with_values: bool
    """Whether the rows' and turns' own values are meant too."""


def pack(columns: Columns, places: Places, buffer: UInt8[Tensor, "bytes"]) -> None:
    """Write pieces column by column: tokens, then, if asked, row and turn values.

    Neither lengths nor padding are written, since the plan knows them. Bytes are copied, never
    converted, so that NaN payloads and every dtype survive; a boolean per token takes a bit, and
    the bits of a piece end at a whole byte. Wide types come first, which keeps them aligned.
    """
    for column, starts, lengths, is_bits, region in _regions(columns, places, buffer):
        if is_bits:
            bits = region.new_zeros(len(region) * BITS_PER_BYTE)
            copy_pieces(bits, _bit_places(lengths), column.view(torch.uint8), starts, lengths)
            weighted = bits.view(-1, BITS_PER_BYTE) * _weights(bits.device)
            region.copy_(weighted.sum(1, dtype=torch.uint8))
        else:
            values = _as_values(region, column.dtype)
            copy_pieces(values, _ends(lengths)[:-1], column, starts, lengths)
            if values.data_ptr() != region.data_ptr():
                region.copy_(values.view(torch.uint8))


def unpack(buffer: UInt8[Tensor, "bytes"], places: Places, columns: Columns) -> None:
    """Read what `pack` wrote into columns, at the places given there."""
    for column, starts, lengths, is_bits, region in _regions(columns, places, buffer):
        if is_bits:
            bits = region[:, None].bitwise_and(_weights(region.device)).ne(0).flatten()
            copy_pieces(column, starts, bits, _bit_places(lengths), lengths)
        else:
            values = _as_values(region, column.dtype)
            copy_pieces(column, starts, values, _ends(lengths)[:-1], lengths)


def move(source: Columns, source_places: Places, target: Columns, target_places: Places) -> None:
    """Copy pieces straight from columns to where they stand in others of the same schema."""
    pairs = zip(_columns(source, source_places), _columns(target, target_places), strict=True)
    for (column, starts, lengths, _), (into, into_starts, _, _) in pairs:
        copy_pieces(into, into_starts, column, starts, lengths)


def byte_runs(schema: Schema, source_places: Places, target_places: Places) -> list[list[Run]]:
    """Return what `move` copies as bytes of each column, in the order of the schema."""
    source, target = source_places, target_places
    ones = [1] * len(source.rows)
    kinds = [(schema.per_token, source.starts, target.starts, source.lengths)]
    if source.with_values:
        kinds.append((schema.per_row, source.rows, target.rows, ones))
        kinds.append((schema.per_turn, source.turn_starts, target.turn_starts, source.turns))
    runs: list[list[Run]] = []
    for columns, starts, into, lengths in kinds:
        joined = join_runs(into, starts, lengths)
        for _, dtype in columns:
            size = dtype.itemsize
            runs.append([(to * size, start * size, n * size) for to, start, n in joined])
    return runs


def _regions(
    columns: Columns, places: Places, buffer: Tensor
) -> Iterator[tuple[Tensor, Sequence[int], Sequence[int], bool, Tensor]]:
    """Yield each column, where its pieces are, whether it travels as bits, and its region."""
    position = 0
    for column, starts, lengths, is_bits in _columns(columns, places):
        num_bytes = (
            sum(-(-length // BITS_PER_BYTE) for length in lengths)
            if is_bits
            else sum(lengths) * column.dtype.itemsize
        )
        yield column, starts, lengths, is_bits, buffer[position : position + num_bytes]
        position += num_bytes
    assert position == len(buffer), f"{position} bytes expected, {len(buffer)} in the buffer"


def _columns(
    columns: Columns, places: Places
) -> Iterator[tuple[Tensor, Sequence[int], Sequence[int], bool]]:
    schema = columns.schema()
    for name, dtype in _wide_first(schema.per_token):
        yield columns.per_token[name], places.starts, places.lengths, dtype == torch.bool
    if places.with_values:
        ones = [1] * len(places.rows)
        for name, _ in _wide_first(schema.per_row):
            yield columns.per_row[name], places.rows, ones, False
        for name, _ in _wide_first(schema.per_turn):
            yield columns.per_turn[name], places.turn_starts, places.turns, False


def _wide_first(
    columns: Sequence[tuple[str, torch.dtype]],
) -> list[tuple[str, torch.dtype]]:
    return sorted(columns, key=lambda c: (c[1] == torch.bool, -c[1].itemsize, c[0]))


def _ends(lengths: Sequence[int]) -> list[int]:
    return list(accumulate(lengths, initial=0))


def _as_values(region: Tensor, dtype: torch.dtype) -> Tensor:
    """View bytes as values; a copy where they do not begin at a multiple of the value's size."""
    if region.data_ptr() % dtype.itemsize or region.storage_offset() % dtype.itemsize:
        region = region.clone()
    return region.view(dtype)


def _bit_places(lengths: Sequence[int]) -> list[int]:
    """Return where the bits of each piece begin: at a whole byte."""
    return _ends([-(-length // BITS_PER_BYTE) * BITS_PER_BYTE for length in lengths])[:-1]


def _weights(device: torch.device) -> Tensor:
    return 1 << torch.arange(BITS_PER_BYTE, dtype=torch.uint8, device=device)
