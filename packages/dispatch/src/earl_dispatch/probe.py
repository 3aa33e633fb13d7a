"""How fast a transport moves bytes between the ranks that there are."""

import time

import torch
from torch.distributed import ProcessGroup

from earl_dispatch.columns import Columns
from earl_dispatch.dispatch import dispatch
from earl_dispatch.layout import Layout
from earl_dispatch.link import Link
from earl_dispatch.network import Network
from earl_dispatch.plan import plan_transfer
from earl_dispatch.sizes import RowSizes

_NUM_REPEATS = 3


def measure_network(
    *,
    transport: str,
    group: ProcessGroup | None = None,
    num_bytes: int = 4 << 20,
    timeout_s: float = 300.0,
) -> Network:
    """Measure the rate at which every rank sends to the next one while it hears from another.

    All ranks call it together and get the same answer: that of the slowest rank in the fastest of
    three transfers, after one that opens the connections. Latency is not told apart from it.

    Args:
        transport: Name in `TRANSPORTS`.
        group: Ranks that take part, two at least; the default group if None.
        num_bytes: What each rank sends.
        timeout_s: Longest time to wait for the others in each exchange.

    Raises:
        ValueError: If there is nobody to send to, or nothing.
        RuntimeError: If a rank is gone or does not take part within `timeout_s`.
    """
    link = Link.open(group, timeout_s=timeout_s)
    if link.num_ranks < 2 or num_bytes < 1:
        raise ValueError(
            f"a link joins 2 ranks or more and carries 1 byte or more, got {link.num_ranks} ranks "
            f"and {num_bytes} bytes"
        )
    columns = Columns(
        lengths=torch.tensor([num_bytes]),
        per_token={"bytes": torch.zeros(num_bytes, dtype=torch.uint8)},
    )
    ranks = range(link.num_ranks)
    groups = tuple((rank,) for rank in ranks)
    plan = plan_transfer(
        Layout(owners=tuple(ranks), groups=groups),
        Layout(owners=tuple((rank + 1) % link.num_ranks for rank in ranks), groups=groups),
        sizes=RowSizes.of(columns.schema(), [num_bytes] * link.num_ranks),
    )
    seconds: list[float] = []
    for _ in range(1 + _NUM_REPEATS):
        start_s = time.perf_counter()
        dispatch(plan, columns, transport=transport, group=group, timeout_s=timeout_s)
        mine = torch.tensor([time.perf_counter() - start_s], dtype=torch.float64)
        said = link.exchange([mine.view(torch.uint8)] * link.num_ranks, [8] * link.num_ranks)
        seconds.append(max(part.clone().view(torch.float64).item() for part in said))
    return Network(bytes_per_s=num_bytes / min(seconds[1:]))
