"""Everything through rank 0: the central controller that direct transfers are measured against."""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace

from earl_dispatch.chunked import LimitedPlan, largest_buffer, limit_like
from earl_dispatch.columns import Columns
from earl_dispatch.execution import Execution
from earl_dispatch.layout import Layout
from earl_dispatch.link import Exchange, Link
from earl_dispatch.plan import TransferPlan, plan_transfer
from earl_dispatch.transports.rounds import run_rounds, start_round

NUM_PARTS = 32
"""Parts of a pipelined batch: the first to come in and the last to go out are not overlapped, so
that it takes 1 + 1/32 of the time of either direction, if there are as many rows on every rank."""
_AHEAD = 3
"""Parts that are under way in each direction; many would only queue before one another's
acknowledgements."""


def gather_scatter(plan: TransferPlan, columns: Columns, link: Link) -> Columns:
    """Gather all rows on rank 0, then send every rank all the rows it needs.

    As controllers do, it follows the layouts alone: which rows a rank already holds and which
    ranks share a host is ignored, and every replica gets its own copy back.
    """
    to_controller, from_controller = (limit_like(each, plan) for each in central_plans(plan))
    return run_rounds(from_controller, run_rounds(to_controller, columns, link), link)


def gather_scatter_pipelined(plan: TransferPlan, columns: Columns, link: Link) -> Columns:
    """Do the same at full duplex: rank 0 hands out one part of the rows while the next comes in.

    Some parts are under way in each direction at any time, so that neither waits for a rank to
    unpack, pack or answer.
    """
    num_parts = _num_parts(plan)
    parts = _equal_parts(plan, num_parts)
    to_controller, from_controller = (_cut(central, parts) for central in central_plans(plan))
    gather = Execution(to_controller, columns, rank=link.rank)
    # Rank 0 passes on from the columns that the gather fills part by part.
    scatter = Execution(from_controller, gather.result(), rank=link.rank)
    arriving = deque(start_round(gather, part, link) for part in range(_AHEAD))
    leaving = deque[Exchange]()
    for part in range(num_parts):
        received = arriving.popleft().wait()
        if part + _AHEAD < num_parts:
            arriving.append(start_round(gather, part + _AHEAD, link))
        gather.accept(part, dict(enumerate(received)))
        leaving.append(start_round(scatter, part, link))
        if part >= _AHEAD:
            scatter.accept(part - _AHEAD, dict(enumerate(leaving.popleft().wait())))
    for part in range(num_parts - _AHEAD, num_parts):
        scatter.accept(part, dict(enumerate(leaving.popleft().wait())))
    return scatter.result()


def central_plans(plan: TransferPlan) -> tuple[TransferPlan, TransferPlan]:
    """Return the plan that gathers everything on rank 0, and the one that hands it out."""
    everything = Layout(owners=(0,) * plan.source.num_rows, groups=((0,),))
    return (
        plan_transfer(plan.source, everything, sizes=plan.sizes),
        plan_transfer(everything, plan.target, sizes=plan.sizes),
    )


def _num_parts(plan: TransferPlan) -> int:
    """Return enough parts for those under way in one direction to fit the buffers of the plan."""
    if not isinstance(plan, LimitedPlan):
        return NUM_PARTS
    largest = max(largest_buffer(plan, each.transfers) for each in central_plans(plan))
    # One more than are under way is being packed or unpacked.
    needed = -(-largest * (_AHEAD + 1) // plan.max_buffer_bytes)
    # More parts than rows would be empty.
    return max(NUM_PARTS, min(needed, plan.sizes.num_rows))


def _equal_parts(plan: TransferPlan, num_parts: int) -> list[frozenset[int]]:
    """Return the rows of each part: of every group's rows the next share of their bytes."""
    row_bytes = plan.sizes.all_row_bytes()
    total, before = defaultdict[int, int](int), defaultdict[int, int](int)
    for row, owner in enumerate(plan.source.owners):
        total[owner] += row_bytes[row]
    parts: list[set[int]] = [set() for _ in range(num_parts)]
    for row, owner in enumerate(plan.source.owners):
        part = before[owner] * num_parts // max(total[owner], 1)
        # Rows of no bytes at the end begin where the last part ends.
        parts[min(part, num_parts - 1)].add(row)
        before[owner] += row_bytes[row]
    return [frozenset(rows) for rows in parts]


def _cut(plan: TransferPlan, parts: Sequence[frozenset[int]]) -> TransferPlan:
    """Make one round of each part, also of those that nothing is sent of."""
    rounds = tuple(
        tuple(
            transfer._replace(rows=rows)
            for transfer in plan.transfers
            if (rows := tuple(row for row in transfer.rows if row in part))
        )
        for part in parts
    )
    return replace(plan, rounds=rounds)
