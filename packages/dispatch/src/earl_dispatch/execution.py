"""A plan on one rank, round by round, whoever carries the bytes."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import final

import torch
from jaxtyping import UInt8
from torch import Tensor

from earl_dispatch.columns import Columns
from earl_dispatch.layout import Layout, chunk_bounds
from earl_dispatch.plan import Transfer, TransferPlan
from earl_dispatch.wire import Places, pack, unpack

Allocate = Callable[[int, int], UInt8[Tensor, "_"]]
"""(rank that the buffer goes to, bytes) -> buffer to write to."""


@final
class Execution:
    """What one rank sends and receives in each round of a plan, and what it then holds.

    Transports carry the buffers and need to know nothing of rows. What arrives is written where it
    belongs at once, so that beside the result only buffers under way take memory. The rank's own
    columns are left as they are.

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
        self._held = _Held.of(plan, plan.source, rank)
        self._needed = _Held.of(plan, plan.target, rank)
        self._result = self._needed.allocate(columns)

    @property
    def device(self) -> torch.device:
        """Where the columns are."""
        return self._columns.lengths.device

    def outgoing(
        self, number: int, allocate: Allocate | None = None
    ) -> dict[int, UInt8[Tensor, "_"]]:
        """Return the buffer for each rank that this one sends to in a round.

        Args:
            number: Of the round.
            allocate: Gives the buffers; on the columns' device by default.
        """
        transfers = defaultdict[int, list[Transfer]](list)
        for transfer in self._plan.rounds[number]:
            if transfer.source_rank == self._rank:
                transfers[transfer.target_rank].append(transfer)
        buffers: dict[int, Tensor] = {}
        for rank, going in transfers.items():
            sizes = [self._plan.bytes_of(transfer) for transfer in going]
            buffers[rank] = (allocate or self._allocate)(rank, sum(sizes))
            for transfer, part in zip(going, buffers[rank].split(sizes), strict=True):
                self._write(transfer, part)
        return buffers

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
            unpack(
                buffers[transfer.source_rank][start:stop],
                self._needed.places(transfer),
                self._result,
            )

    def result(self) -> Columns:
        """Return what the rank holds under `plan.target`.

        Call it once. What arrives in rounds that are accepted later is written to it then.
        """
        self._keep()
        return self._result

    def _allocate(self, rank: int, num_bytes: int) -> Tensor:
        del rank  # all buffers of this process are alike
        return torch.empty(num_bytes, dtype=torch.uint8, device=self.device)

    def _arrivals(self, number: int) -> list[Transfer]:
        return [t for t in self._plan.rounds[number] if t.target_rank == self._rank]

    def _keep(self) -> None:
        """Write what the rank holds and needs."""
        rows = tuple(row for row in self._needed.place if row in self._held.place)
        if rows:
            kept = Transfer(self._rank, self._rank, rows, self._held.chunk, self._needed.chunk)
            size = self._plan.bytes_of(kept)
            buffer = self._allocate(self._rank, size)
            self._write(kept, buffer)
            unpack(buffer, self._needed.places(kept), self._result)

    def _write(self, transfer: Transfer, buffer: Tensor) -> None:
        group = self._plan.source.owners[transfer.rows[0]]
        if self._rank in self._plan.source.replicas(group, transfer.source_chunk):
            pack(self._columns, self._held.places(transfer), buffer)
        else:
            # It came in an earlier round and is passed on.
            pack(self._result, self._needed.places(transfer), buffer)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """Where the rows of a layout stand in the columns of one rank."""

    plan: TransferPlan
    layout: Layout
    chunk: int
    place: Mapping[int, int]
    """Row -> its place among the rank's rows."""
    offsets: Sequence[int]
    """Place of each row's first token."""
    turn_offsets: Sequence[int]
    """Place of each row's first turn."""

    @classmethod
    def of(cls, plan: TransferPlan, layout: Layout, rank: int) -> "_Held":
        rows, chunk = layout.rows_of(rank), layout.chunk_of(rank)
        bounds = [chunk_bounds(plan.sizes.lengths[r], chunk, layout.num_chunks) for r in rows]
        return cls(
            plan=plan,
            layout=layout,
            chunk=chunk,
            place={row: place for place, row in enumerate(rows)},
            offsets=list(accumulate((stop - start for start, stop in bounds), initial=0)),
            turn_offsets=list(accumulate((plan.sizes.turns[row] for row in rows), initial=0)),
        )

    def places(self, transfer: Transfer) -> Places:
        """Return where the pieces of a transfer stand."""
        plan, rows = self.plan, [self.place[row] for row in transfer.rows]
        bounds = [
            plan.bounds(row, transfer.source_chunk, transfer.target_chunk) for row in transfer.rows
        ]
        firsts = [
            chunk_bounds(plan.sizes.lengths[row], self.chunk, self.layout.num_chunks)[0]
            for row in transfer.rows
        ]
        return Places(
            rows=rows,
            starts=[
                self.offsets[place] + start - first
                for place, (start, _), first in zip(rows, bounds, firsts, strict=True)
            ],
            lengths=[stop - start for start, stop in bounds],
            turn_starts=[self.turn_offsets[place] for place in rows],
            turns=[plan.sizes.turns[row] for row in transfer.rows],
            with_values=transfer.with_values,
        )

    def allocate(self, like: Columns) -> Columns:
        """Return columns for these rows whose values have yet to be written."""
        device = like.lengths.device
        offsets, turn_offsets = torch.tensor(self.offsets), torch.tensor(self.turn_offsets)

        def empty(columns: Mapping[str, Tensor], size: int) -> dict[str, Tensor]:
            return {name: column.new_empty(size) for name, column in columns.items()}

        return Columns(
            lengths=offsets.diff().to(device),
            per_token=empty(like.per_token, self.offsets[-1]),
            per_row=empty(like.per_row, len(self.place)),
            turns=None if like.turns is None else turn_offsets.diff().to(device),
            per_turn=empty(like.per_turn, self.turn_offsets[-1]),
        )
