"""A group of processes that have nothing else in common, one of which sends tensors to the rest."""

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

HOST = "127.0.0.1"


def open_store(num_processes: int, *, timeout_s: float | int) -> dist.TCPStore:  # pyright: ignore[reportPrivateImportUsage]
    """Open, for the sender, where the processes find one another; its port is a free one."""
    return dist.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
        HOST,
        0,
        num_processes,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=timeout_s),
    )


def find_store(port: int, num_processes: int, *, timeout_s: float | int) -> dist.TCPStore:  # pyright: ignore[reportPrivateImportUsage]
    """Find the sender's store."""
    return dist.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
        HOST, port, num_processes, timeout=timedelta(seconds=timeout_s)
    )


def join_group(
    store: dist.Store,  # pyright: ignore[reportPrivateImportUsage]
    *,
    rank: int,
    num_processes: int,
    timeout_s: float | int,
) -> dist.ProcessGroupGloo:
    """Join the group; returns once all are in it. The sender is rank 0.

    It is none of `torch.distributed`'s own groups, of which a process has one set only.
    """
    return dist.ProcessGroupGloo(store, rank, num_processes, timedelta(seconds=timeout_s))


def broadcast(group: dist.ProcessGroupGloo, tensor: Tensor) -> None:
    """Send a contiguous tensor of the sender's into those of the others."""
    options = dist.BroadcastOptions()
    options.rootRank = 0
    options.rootTensor = 0
    # Not every kind of number can be sent, but bytes can.
    # The library's stubs know of no collectives of a backend.
    backend: Any = group
    backend.broadcast([tensor.view(-1).view(torch.uint8)], options).wait()
