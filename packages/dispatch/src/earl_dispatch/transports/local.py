"""All ranks in one process: the reference that every transport is compared with."""

from collections.abc import Sequence

from earl_dispatch.columns import Columns
from earl_dispatch.link import Link
from earl_dispatch.plan import TransferPlan
from earl_dispatch.rows import in_row_order, pick


def execute_local(plan: TransferPlan, columns: Sequence[Columns]) -> list[Columns]:
    """Execute a plan for all its ranks at once.

    Args:
        plan: The plan.
        columns: What each rank holds under `plan.source`, one entry per rank of the plan.

    Returns:
        What each rank holds under `plan.target`.

    Raises:
        ValueError: If there is not one entry per rank.
    """
    if len(columns) != plan.num_ranks:
        raise ValueError(f"the plan has {plan.num_ranks} ranks, got columns of {len(columns)}")
    held = [plan.source.rows_of(rank) for rank in range(plan.num_ranks)]
    pieces = [
        [(kept, pick(columns[rank], held[rank], kept))]
        for rank, kept in enumerate(map(plan.kept_rows, range(plan.num_ranks)))
    ]
    for transfer in plan.transfers:
        source = transfer.source_rank
        rows = pick(columns[source], held[source], transfer.rows)
        pieces[transfer.target_rank].append((transfer.rows, rows))
    return [in_row_order(piece) for piece in pieces]


def local(plan: TransferPlan, columns: Columns, link: Link) -> Columns:
    """Execute a plan of one rank, which needs no process group.

    Raises:
        ValueError: If there is more than one rank.
    """
    if link.num_ranks > 1:
        raise ValueError(f"transport 'local' serves 1 rank, the process group has {link.num_ranks}")
    return execute_local(plan, [columns])[0]
