"""Plans cut into more rounds, so that no rank needs large buffers."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import accumulate

from earl_dispatch.plan import Transfer, TransferPlan


@dataclass(frozen=True, kw_only=True)
class LimitedPlan(TransferPlan):
    """A plan whose rounds fit buffers, and so do those of plans that take its place."""

    max_buffer_bytes: int


def limit_buffers(plan: TransferPlan, max_buffer_bytes: int) -> LimitedPlan:
    """Cut the rounds of a plan until what a rank sends, or receives, in one fits a buffer.

    The messages are the same rows in smaller parts. A row that is larger than the buffer by itself
    is not cut, and parts are even only as far as whole rows go: a round exceeds the limit by one
    row of each message at most.

    Args:
        plan: The plan.
        max_buffer_bytes: Most bytes that a rank sends, and receives, in one round.

    Raises:
        ValueError: If `max_buffer_bytes` is below 1.
    """
    if problem := buffer_problem(max_buffer_bytes):
        raise ValueError(problem)
    largest = max((largest_buffer(plan, transfers) for transfers in plan.rounds), default=0)
    num_parts = max(1, -(-largest // max_buffer_bytes))
    rounds = [
        tuple(cut for transfer in transfers if (cut := _part(plan, transfer, part, num_parts)).rows)
        for transfers in plan.rounds
        for part in range(num_parts)
    ]
    kept = {field.name: getattr(plan, field.name) for field in fields(TransferPlan)}
    kept["rounds"] = tuple(transfers for transfers in rounds if transfers)
    return LimitedPlan(**kept, max_buffer_bytes=max_buffer_bytes)


def buffer_problem(max_buffer_bytes: int | None) -> str:
    """Say why buffers cannot be limited to this; empty if they can, or are not to be."""
    if max_buffer_bytes is None or max_buffer_bytes >= 1:
        return ""
    return f"max_buffer_bytes must be >= 1, got {max_buffer_bytes}"


def limit_like(plan: TransferPlan, other: TransferPlan) -> TransferPlan:
    """Cut the rounds of a plan as those of another are, if they are."""
    return limit_buffers(plan, other.max_buffer_bytes) if isinstance(other, LimitedPlan) else plan


def largest_buffer(plan: TransferPlan, transfers: Sequence[Transfer]) -> int:
    """Return the most bytes that a rank sends, or receives, in a round."""
    loads = defaultdict[tuple[str, int], int](int)
    for transfer in transfers:
        num_bytes = plan.bytes_of(transfer)
        loads["sent", transfer.source_rank] += num_bytes
        loads["received", transfer.target_rank] += num_bytes
    return max(loads.values(), default=0)


def _part(plan: TransferPlan, transfer: Transfer, part: int, num_parts: int) -> Transfer:
    """Cut by tokens alone, so that what a rank passes on is cut as what it received."""
    lengths = plan.sizes.lengths
    through = list(accumulate((1 + lengths[row] for row in transfer.rows), initial=0))
    first, last = (
        bisect_left(through, place * through[-1] / num_parts) for place in (part, part + 1)
    )
    return transfer._replace(rows=transfer.rows[first:last])
