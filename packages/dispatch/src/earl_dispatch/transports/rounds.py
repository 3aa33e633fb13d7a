"""The rounds of a plan over a link, one collective each."""

import torch
from torch import Tensor

from earl_dispatch.columns import Columns
from earl_dispatch.execution import Execution
from earl_dispatch.link import Exchange, Link
from earl_dispatch.plan import TransferPlan


def run_rounds(plan: TransferPlan, columns: Columns, link: Link) -> Columns:
    """Execute a plan with one exchange of buffers per round."""
    execution = Execution(plan, columns, rank=link.rank)
    for number in range(len(plan.rounds)):
        received = link.exchange(*_buffers(execution, number, link))
        execution.accept(number, dict(enumerate(received)))
    return execution.result()


def start_round(execution: Execution, number: int, link: Link) -> Exchange:
    """Begin the exchange of one round's buffers."""
    return link.start(*_buffers(execution, number, link))


def _buffers(execution: Execution, number: int, link: Link) -> tuple[list[Tensor], list[int]]:
    """Return the buffer for each rank, and the size of that from each."""
    outgoing, sizes = execution.outgoing(number), execution.incoming_bytes(number)
    nothing = torch.empty(0, dtype=torch.uint8, device=execution.device)
    ranks = range(link.num_ranks)
    return (
        [outgoing.get(rank, nothing) for rank in ranks],
        [sizes.get(rank, 0) for rank in ranks],
    )
