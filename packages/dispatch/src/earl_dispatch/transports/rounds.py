"""The rounds of a plan over a link, one collective each."""

import torch

from earl_dispatch.columns import Columns
from earl_dispatch.execution import Execution
from earl_dispatch.link import Link
from earl_dispatch.plan import TransferPlan


def run_rounds(plan: TransferPlan, columns: Columns, link: Link) -> Columns:
    """Execute a plan with one exchange of buffers per round."""
    execution = Execution(plan, columns, rank=link.rank)
    nothing = columns.lengths.new_empty(0, dtype=torch.uint8)
    for number in range(len(plan.rounds)):
        outgoing, sizes = execution.outgoing(number), execution.incoming_bytes(number)
        ranks = range(link.num_ranks)
        received = link.exchange(
            [outgoing.get(rank, nothing) for rank in ranks], [sizes.get(rank, 0) for rank in ranks]
        )
        execution.accept(number, dict(enumerate(received)))
    return execution.result()
