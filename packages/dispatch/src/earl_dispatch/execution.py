"""A plan on one rank, round by round, whoever carries the bytes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import final

import torch
from jaxtyping import UInt8
from torch import Tensor

from earl_dispatch.columns import Columns
from earl_dispatch.layout import Layout, chunk_bounds
from earl_dispatch.plan import Transfer, TransferPlan, shared_bounds
from earl_dispatch.wire import Places, move, pack, unpack


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
        self._held: dict[int, _Held] = {}
        self._needed: dict[int, _Held] = {}
        self._results: dict[int, Columns] = {}

    @property
    def device(self) -> torch.device:
        """Where the columns are."""
        return self._columns.lengths.device

    def outgoing(self, number: int) -> dict[int, UInt8[Tensor, "_"]]:
        """Return the buffer for each rank that this one sends to in a round."""
        transfers = defaultdict[int, list[Transfer]](list)
        for transfer in self._departures(number):
            transfers[transfer.target_rank].append(transfer)
        buffers: dict[int, Tensor] = {}
        for rank, going in transfers.items():
            sizes = [self._plan.bytes_of(transfer) for transfer in going]
            buffers[rank] = torch.empty(sum(sizes), dtype=torch.uint8, device=self.device)
            for transfer, part in zip(going, buffers[rank].split(sizes), strict=True):
                columns, held = self._origin(transfer)
                pack(columns, held.places(transfer), part)
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
                self._needs(self._rank).places(transfer),
                self._result,
            )

    def needed_sizes(self, rank: int) -> list[tuple[torch.dtype, int]]:
        """Return dtype and elements of each column that a rank will hold."""
        schema, needed = self._columns.schema(), self._needs(rank)
        kinds = ((schema.per_token, needed.offsets[-1]), (schema.per_row, len(needed.place)),
                 (schema.per_turn, needed.turn_offsets[-1]))  # fmt: skip
        return [(dtype, size) for columns, size in kinds for _, dtype in columns]

    def place(self, rank: int, memory: Sequence[Tensor]) -> None:
        """Let what a rank will hold stand in memory of the `needed_sizes`."""
        self._results[rank] = self._needs(rank).columns(self._columns, memory)

    def deliver(self, number: int) -> None:
        """Write what this rank sends in a round straight to where the receivers will hold it.

        Memory that they see has been given by `place` before.
        """
        for transfer in self._departures(number):
            columns, held = self._origin(transfer)
            receiver = transfer.target_rank
            into = self._needs(receiver).places(transfer)
            move(columns, held.places(transfer), self._results[receiver], into)

    def arrivals(self, number: int) -> Iterator["Arrival"]:
        """Say where what this rank receives in a round stands with the senders."""
        needed = self._needs(self._rank)
        for transfer in self._arrivals(number):
            sender = transfer.source_rank
            passed_on = not self._is_held(sender, transfer)
            held = self._needs(sender) if passed_on else self._holds(sender)
            yield Arrival(
                sender=sender,
                passed_on=passed_on,
                there=held.places(transfer),
                here=needed.places(transfer),
            )

    def result(self) -> Columns:
        """Return what the rank holds under `plan.target`.

        Call it once. What arrives in rounds that are accepted later is written to it then.
        """
        held, needed = self._holds(self._rank), self._needs(self._rank)
        rows = tuple(row for row in needed.place if row in held.place)
        if rows:
            kept = Transfer(self._rank, self._rank, rows, held.chunk, needed.chunk)
            move(self._columns, held.places(kept), self._result, needed.places(kept))
        return self._result

    @property
    def _result(self) -> Columns:
        if self._rank not in self._results:
            sizes = self.needed_sizes(self._rank)
            empty = [torch.empty(size, dtype=dtype, device=self.device) for dtype, size in sizes]
            self.place(self._rank, empty)
        return self._results[self._rank]

    def _holds(self, rank: int) -> "_Held":
        if rank not in self._held:
            self._held[rank] = _Held.of(self._plan, self._plan.source, rank)
        return self._held[rank]

    def _needs(self, rank: int) -> "_Held":
        if rank not in self._needed:
            self._needed[rank] = _Held.of(self._plan, self._plan.target, rank)
        return self._needed[rank]

    def _arrivals(self, number: int) -> list[Transfer]:
        return [t for t in self._plan.rounds[number] if t.target_rank == self._rank]

    def _departures(self, number: int) -> list[Transfer]:
        return [t for t in self._plan.rounds[number] if t.source_rank == self._rank]

    def _origin(self, transfer: Transfer) -> tuple[Columns, "_Held"]:
        """Return where this rank has what it sends: what it began with, or came to it before."""
        if self._is_held(self._rank, transfer):
            return self._columns, self._holds(self._rank)
        return self._result, self._needs(self._rank)

    def _is_held(self, sender: int, transfer: Transfer) -> bool:
        """Return whether a rank has had from the beginning what it sends."""
        group = self._plan.source.owners[transfer.rows[0]]
        return sender in self._plan.source.replicas(group, transfer.source_chunk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Pieces of rows that one rank receives from another."""

    sender: int
    passed_on: bool
    """Whether the sender has them in its result, from an earlier round, not in its columns."""
    there: Places
    """Where they stand with the sender."""
    here: Places
    """Where they are needed."""


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
            shared_bounds(plan, row, transfer.source_chunk, transfer.target_chunk)
            for row in transfer.rows
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

    def columns(self, like: Columns, memory: Sequence[Tensor]) -> Columns:
        """Return columns for these rows in memory that has yet to be written."""
        device = like.lengths.device
        offsets, turn_offsets = torch.tensor(self.offsets), torch.tensor(self.turn_offsets)
        schema, parts = like.schema(), iter(memory)
        # A rank that held nothing may have been given no turns to count.
        no_turns = like.turns is None and not any(self.plan.sizes.turns)
        return Columns(
            lengths=offsets.diff().to(device),
            per_token={name: next(parts) for name, _ in schema.per_token},
            per_row={name: next(parts) for name, _ in schema.per_row},
            turns=None if no_turns else turn_offsets.diff().to(device),
            per_turn={name: next(parts) for name, _ in schema.per_turn},
        )
