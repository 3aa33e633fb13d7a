"""An exchange between all ranks in which no two send to the same rank as long as they keep pace."""

import time
from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist
from jaxtyping import UInt8
from torch import Tensor
from torch.distributed import ProcessGroup

# Apart from messages of the caller, which have tag 0 by default.
_TAG = 0x4541


def ring_exchange(
    outgoing: Sequence[UInt8[Tensor, "_"]],
    received: Sequence[UInt8[Tensor, "_"]],
    *,
    rank: int,
    group: ProcessGroup | None,
    timeout_s: float,
) -> None:
    """Send one buffer to every rank and fill the one from every rank; all ranks call it.

    Rank r sends to r + 1, then to r + 2, and so on, one after the other, and is ready to receive
    from everyone all the while. With buffers of one size every link is busy in both directions
    with one message each; a collective that sends to everybody at once makes flows compete, of
    which the slowest ends well after the average. Where sizes differ nobody waits for a turn.

    Args:
        outgoing: Buffer for each rank, on the CPU.
        received: Memory for the buffer of each rank, of the sizes that these send.
        rank: Of the caller in the group.
        group: Ranks that take part; the default group if None.
        timeout_s: Longest time that it may take.

    Raises:
        RuntimeError: If a rank is gone or does not take part in time.
    """
    deadline_s = time.monotonic() + timeout_s
    num_ranks = len(outgoing)
    received[rank].copy_(outgoing[rank])
    arriving = [
        dist.irecv(received[source], group=group, tag=_TAG, group_src=source)
        for source in ((rank - shift) % num_ranks for shift in range(1, num_ranks))
    ]
    for shift in range(1, num_ranks):
        target = (rank + shift) % num_ranks
        _wait(dist.isend(outgoing[target], group=group, tag=_TAG, group_dst=target), deadline_s)
    for work in arriving:
        _wait(work, deadline_s)


def _wait(work: dist.Work | None, deadline_s: float) -> None:
    assert work is not None
    # At least a millisecond, as 0 means no limit.
    work.wait(timedelta(seconds=max(0.001, deadline_s - time.monotonic())))
