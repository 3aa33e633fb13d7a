"""All ranks in one process: the reference that every transport is compared with."""

from collections.abc import Sequence

from earl_dispatch.columns import Columns
from earl_dispatch.execution import Execution
from earl_dispatch.link import Link
from earl_dispatch.plan import TransferPlan


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
    ranks = [Execution(plan, held, rank=rank) for rank, held in enumerate(columns)]
    for number in range(len(plan.rounds)):
        sent = [rank.outgoing(number) for rank in ranks]
        for target, execution in enumerate(ranks):
            buffers = {rank: out[target] for rank, out in enumerate(sent) if target in out}
            execution.accept(number, buffers)
    return [execution.result() for execution in ranks]


def local(plan: TransferPlan, columns: Columns, link: Link) -> Columns:
    """Execute a plan of one rank, which needs no process group.

    Raises:
        ValueError: If there is more than one rank.
    """
    if link.num_ranks > 1:
        raise ValueError(f"transport 'local' serves 1 rank, the process group has {link.num_ranks}")
    return execute_local(plan, [columns])[0]
