"""A plan on one rank, round by round, whoever carries the bytes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import UInt8
from torch import Tensor

from earl_dispatch.columns import Columns, spread
from earl_dispatch.layout import chunk_bounds
from earl_dispatch.plan import Transfer, TransferPlan
from earl_dispatch.wire import pack, unpack


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Parts of rows that this rank has of what it needs."""

    rows: Sequence[int]
    starts: Sequence[int]
    """Place of each part's first token in its row."""
    columns: Columns
    has_values: bool


@final
class Execution:
    """What one rank sends and receives in each round of a plan, and what it then holds.

    Transports carry the buffers and need to know nothing of rows. The rank's columns are left as
    they are.

    Example:
        >>> execution = Execution(plan, columns, rank=0)
        >>> for number in range(len(plan.rounds)):
        ...     execution.accept(number, carry(execution.outgoing(number)))
        >>> held = execution.result()
    """

    def __init__(self, plan: TransferPlan, columns: Columns, *, rank: int) -> None:
        self._plan = plan
        self._columns = columns
        self._rank = rank
        self._held = plan.source.rows_of(rank)
        self._needed = plan.target.rows_of(rank)
        self._place = {row: place for place, row in enumerate(self._held)}
        self._chunk = plan.source.chunk_of(rank)
        self._received: dict[tuple[int, int, tuple[int, ...]], Tensor] = {}
        self._pieces: list[_Piece] = []
        self._keep()

    def outgoing(self, number: int) -> dict[int, UInt8[Tensor, "_"]]:
        """Return the buffer for each rank that this one sends to in a round."""
        parts = defaultdict[int, list[Tensor]](list)
        for transfer in self._plan.rounds[number]:
            if transfer.source_rank == self._rank:
                parts[transfer.target_rank].append(self._packed(transfer))
        return {rank: torch.cat(buffers) for rank, buffers in parts.items()}

    def incoming_bytes(self, number: int) -> dict[int, int]:
        """Return the size of the buffer from each rank that sends to this one in a round."""
        sizes = defaultdict[int, int](int)
        for transfer in self._arrivals(number):
            sizes[transfer.source_rank] += self._plan.bytes_of(transfer)
        return dict(sizes)

    def accept(self, number: int, buffers: Mapping[int, UInt8[Tensor, "_"]]) -> None:
        """Take in what arrived in a round, by the rank that sent it."""
        position = dict.fromkeys(buffers, 0)
        for transfer in self._arrivals(number):
            start = position[transfer.source_rank]
            stop = start + self._plan.bytes_of(transfer)
            position[transfer.source_rank] = stop
            buffer = buffers[transfer.source_rank][start:stop]
            self._received[_content(transfer)] = buffer
            self._pieces.append(self._unpacked(transfer, buffer))

    def result(self) -> Columns:
        """Return what the rank holds under `plan.target`, once all rounds have been accepted."""
        pieces = [piece for piece in self._pieces if piece.rows]
        if not pieces:
            return self._columns.select([])
        return _assemble(pieces, self._columns.turns is not None)

    def _arrivals(self, number: int) -> list[Transfer]:
        return [t for t in self._plan.rounds[number] if t.target_rank == self._rank]

    def _keep(self) -> None:
        """Keep what the rank holds and needs of each row, whole rows of which it is all."""
        kept = [row for row in self._needed if row in self._place]
        if kept:
            chunk = self._plan.target.chunk_of(self._rank)
            bounds = [self._plan.bounds(row, self._chunk, chunk) for row in kept]
            self._pieces.append(
                _Piece(
                    rows=kept,
                    starts=[start for start, _ in bounds],
                    columns=self._cut(kept, bounds),
                    has_values=True,
                )
            )

    def _packed(self, transfer: Transfer) -> Tensor:
        if self._holds(transfer):
            bounds = [
                self._plan.bounds(row, transfer.source_chunk, transfer.target_chunk)
                for row in transfer.rows
            ]
            return pack(self._cut(transfer.rows, bounds), with_values=transfer.with_values)
        # Passed on as it came; a buffer's tokens stand in front of its values.
        return self._received[_content(transfer)][: self._plan.bytes_of(transfer)]

    def _holds(self, transfer: Transfer) -> bool:
        group = self._plan.source.owners[transfer.rows[0]]
        return self._rank in self._plan.source.replicas(group, transfer.source_chunk)

    def _cut(self, rows: Sequence[int], bounds: Sequence[tuple[int, int]]) -> Columns:
        """Return parts of rows that the rank holds, given by their tokens' places in the row."""
        columns, plan = self._columns, self._plan
        places = torch.tensor([self._place[row] for row in rows], dtype=torch.int64)
        whole = columns.select(places)
        lengths = torch.tensor([stop - start for start, stop in bounds], dtype=torch.int64)
        if lengths.equal(whole.lengths.cpu()):
            return whole
        skipped = [
            start - chunk_bounds(plan.sizes.lengths[row], self._chunk, plan.source.num_chunks)[0]
            for row, (start, _) in zip(rows, bounds, strict=True)
        ]
        device = columns.lengths.device
        lengths = lengths.to(device)
        tokens = spread(whole.offsets() + torch.tensor(skipped, device=device), lengths)
        per_token = {n: column.index_select(0, tokens) for n, column in whole.per_token.items()}
        return replace(whole, lengths=lengths, per_token=per_token)

    def _unpacked(self, transfer: Transfer, buffer: Tensor) -> _Piece:
        device = self._columns.lengths.device
        bounds = [
            self._plan.bounds(row, transfer.source_chunk, transfer.target_chunk)
            for row in transfer.rows
        ]
        turns = [self._plan.sizes.turns[row] for row in transfer.rows]
        columns = unpack(
            buffer,
            self._columns.schema(),
            lengths=torch.tensor([stop - start for start, stop in bounds], device=device),
            turns=torch.tensor(turns, device=device) if transfer.with_values else None,
        )
        return _Piece(
            rows=transfer.rows,
            starts=[start for start, _ in bounds],
            columns=columns,
            has_values=transfer.with_values,
        )


def _content(transfer: Transfer) -> tuple[int, int, tuple[int, ...]]:
    return transfer.source_chunk, transfer.target_chunk, transfer.rows


def _assemble(pieces: Sequence[_Piece], has_turns: bool) -> Columns:
    """Join the parts of every row, rows ascending."""
    rows = torch.tensor([row for piece in pieces for row in piece.rows])
    starts = torch.tensor([start for piece in pieces for start in piece.starts])
    # Stable, so that equal rows keep the order of their starts.
    order = starts.argsort(stable=True)
    order = order[rows[order].argsort(stable=True)]
    tokens = Columns.concat([
        Columns(lengths=piece.columns.lengths, per_token=piece.columns.per_token)
        for piece in pieces
    ]).select(order)
    _, num_parts = rows[order].unique_consecutive(return_counts=True)
    ends = num_parts.cumsum(0)
    through = torch.cat([tokens.lengths.new_zeros(1), tokens.lengths.cumsum(0)])
    lengths = through[ends] - through[ends - num_parts]

    valued = [piece for piece in pieces if piece.has_values]
    numbers = torch.tensor([row for piece in valued for row in piece.rows])
    values = Columns.concat([
        replace(piece.columns, lengths=torch.zeros_like(piece.columns.lengths), per_token={})
        for piece in valued
    ]).select(numbers.argsort())
    return Columns(
        lengths=lengths,
        per_token=tokens.per_token,
        per_row=values.per_row,
        turns=values.turn_counts() if has_turns else None,
        per_turn=values.per_turn,
    )
