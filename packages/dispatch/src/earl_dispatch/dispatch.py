"""Execute a plan on this rank."""

from torch.distributed import ProcessGroup

from earl_dispatch.agreement import make_claim, require_agreement
from earl_dispatch.chunked import limit_buffers
from earl_dispatch.columns import Columns
from earl_dispatch.link import Link
from earl_dispatch.plan import TransferPlan
from earl_dispatch.transports.base import find_transport


def dispatch(
    plan: TransferPlan,
    columns: Columns,
    *,
    transport: str,
    group: ProcessGroup | None = None,
    max_buffer_bytes: int | None = None,
    timeout_s: float = 300.0,
) -> Columns:
    """Turn what this rank holds under `plan.source` into what it holds under `plan.target`.

    All ranks of the group call it together, also those that hold or need nothing (with
    `Columns.empty(schema)`). A process without a process group is rank 0 of 1. The columns passed
    in are left as they are.

    Args:
        plan: The same plan on all ranks; its ranks are ranks of the group.
        columns: Rows this rank holds, in ascending order of their global number.
        transport: Name in `TRANSPORTS`; the result does not depend on it, bit for bit.
        group: Ranks that take part; the default group if None.
        max_buffer_bytes: Most bytes that a rank sends, and receives, at a time; None for no limit.
        timeout_s: Longest time to wait for the others in each exchange.

    Returns:
        Rows this rank needs, in ascending order of their global number.

    Raises:
        ValueError: Before anything is sent, on all ranks alike, if one of them has rows or byte
            sizes other than the plan's, or if they differ in columns, plan or transport.
        RuntimeError: If a rank is gone or does not take part within `timeout_s`.
    """
    link = Link.open(group, timeout_s=timeout_s)
    claim = make_claim(plan, columns, transport, link)
    require_agreement(claim, link, device=columns.lengths.device)
    if max_buffer_bytes is not None:
        plan = limit_buffers(plan, max_buffer_bytes)
    return find_transport(transport)(plan, columns, link)
