"""Everything through rank 0: the central controller that direct transfers are measured against."""

import torch

from earl_dispatch.columns import Columns
from earl_dispatch.layout import Layout
from earl_dispatch.link import Link
from earl_dispatch.plan import TransferPlan
from earl_dispatch.rows import in_row_order, pick
from earl_dispatch.wire import pack, unpack

_CONTROLLER = 0


def gather_scatter(plan: TransferPlan, columns: Columns, link: Link) -> Columns:
    """Gather all rows on rank 0, then send every rank all the rows it needs.

    As controllers do, it follows the layouts and ignores which rows a rank already holds: the
    leader of each group sends the group's rows, and every replica gets its own copy back.
    """
    batch = _gather(plan, columns, link)
    return _scatter(plan, batch, link)


def _gather(plan: TransferPlan, columns: Columns, link: Link) -> Columns:
    """Return the whole batch on rank 0 and no rows elsewhere."""
    nothing = columns.select([])
    outgoing = [nothing.lengths.new_empty(0, dtype=torch.uint8)] * link.num_ranks
    incoming_bytes = [0] * link.num_ranks
    senders = _leaders(plan.source)
    if link.rank in senders:
        outgoing[_CONTROLLER] = pack(columns)
    if link.rank == _CONTROLLER:
        for rank in senders:
            incoming_bytes[rank] = sum(plan.row_bytes[row] for row in plan.source.rows_of(rank))
    received = link.exchange(outgoing, incoming_bytes)
    if link.rank != _CONTROLLER:
        return nothing
    schema = columns.schema()
    held = {rank: plan.source.rows_of(rank) for rank in senders}
    return in_row_order([
        (held[rank], unpack(received[rank], schema, num_rows=len(held[rank]))) for rank in senders
    ])


def _scatter(plan: TransferPlan, batch: Columns, link: Link) -> Columns:
    """Return what this rank needs of the batch that rank 0 holds."""
    needed = plan.target.rows_of(link.rank)
    outgoing = [batch.lengths.new_empty(0, dtype=torch.uint8)] * link.num_ranks
    incoming_bytes = [0] * link.num_ranks
    incoming_bytes[_CONTROLLER] = sum(plan.row_bytes[row] for row in needed)
    if link.rank == _CONTROLLER:
        every_row = range(plan.source.num_rows)
        for rank in range(link.num_ranks):
            outgoing[rank] = pack(pick(batch, every_row, plan.target.rows_of(rank)))
    received = link.exchange(outgoing, incoming_bytes)
    return unpack(received[_CONTROLLER], batch.schema(), num_rows=len(needed))


def _leaders(layout: Layout) -> tuple[int, ...]:
    return tuple(group[0] for group in layout.groups)
