"""Every row straight from the rank that has it to the rank that needs it."""

import torch

from earl_dispatch.columns import Columns
from earl_dispatch.link import Link
from earl_dispatch.plan import TransferPlan
from earl_dispatch.rows import in_row_order, pick
from earl_dispatch.wire import pack, unpack


def all_to_all(plan: TransferPlan, columns: Columns, link: Link) -> Columns:
    """Send the plan's messages in one collective with a buffer per pair of ranks."""
    held = plan.source.rows_of(link.rank)
    outgoing = [columns.lengths.new_empty(0, dtype=torch.uint8)] * link.num_ranks
    incoming_bytes = [0] * link.num_ranks
    arrivals = [t for t in plan.transfers if t.target_rank == link.rank]
    for transfer in plan.transfers:
        if transfer.source_rank == link.rank:
            outgoing[transfer.target_rank] = pack(pick(columns, held, transfer.rows))
    for transfer in arrivals:
        incoming_bytes[transfer.source_rank] = plan.bytes_of(transfer)
    received = link.exchange(outgoing, incoming_bytes)

    schema = columns.schema()
    kept = plan.kept_rows(link.rank)
    pieces = [(kept, pick(columns, held, kept))]
    for transfer in arrivals:
        buffer = received[transfer.source_rank]
        pieces.append((transfer.rows, unpack(buffer, schema, num_rows=len(transfer.rows))))
    return in_row_order(pieces)
