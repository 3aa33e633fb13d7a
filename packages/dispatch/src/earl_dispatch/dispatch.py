"""Execute a plan on this rank, now or beside other work."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from threading import Thread
from typing import final

import torch
from torch.distributed import ProcessGroup

from earl_dispatch.agreement import make_claim, require_agreement
from earl_dispatch.chunked import buffer_problem, limit_buffers
from earl_dispatch.columns import Columns
from earl_dispatch.compression import (
    Compression,
    compress_columns,
    compressed_plan,
    compression_problem,
    decompress_columns,
)
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
    compress: Compression | None = None,
    timeout_s: float = 300.0,
) -> Columns:
    """Turn what this rank holds under `plan.source` into what it holds under `plan.target`.

    All ranks of the group call it together, also those that hold or need nothing (with
    `Columns.empty(schema)`). A process without a process group is rank 0 of 1. The columns passed
    in are left as they are: when a rank is lost, the others can dispatch the same ones again in a
    new group.

    Args:
        plan: The same plan on all ranks, made for the columns as they are; its ranks are ranks of
            the group.
        columns: Rows this rank holds, in ascending order of their global number.
        transport: Name in `TRANSPORTS`; the result does not depend on it, bit for bit.
        group: Ranks that take part; the default group if None.
        max_buffer_bytes: Most bytes that a rank sends, and receives, at a time, the same on all
            ranks; None for no limit. A message has one row at least, so that rows larger than this
            exceed it.
        compress: Columns that travel in fewer bytes, and how; `compressed_plan` gives the bytes.
        timeout_s: Longest time to wait for the others in each exchange.

    Returns:
        Rows this rank needs, in ascending order of their global number.

    Raises:
        ValueError: Before anything is sent, on all ranks alike, if one of them has rows or byte
            sizes other than the plan's, or if they differ in columns, plan, transport, compression
            or buffers.
        RuntimeError: On all ranks that are left, if one is gone or does not take part within
            `timeout_s`; it is named.
    """
    link = Link.open(group, timeout_s=timeout_s)
    compression = compress or {}
    problem = compression_problem(columns, compression, num_chunks=plan.source.num_chunks)
    if not problem:
        plan, columns = compressed_plan(plan, compression), compress_columns(columns, compression)
    problem = problem or buffer_problem(max_buffer_bytes)
    claim = make_claim(plan, columns, transport, link)
    claim = replace(
        claim, max_buffer_bytes=max_buffer_bytes, compression=dict(sorted(compression.items()))
    )
    if problem:
        claim = replace(claim, problem=f"rank {link.rank}: {problem}")
    require_agreement(claim, link, device=columns.lengths.device)
    if max_buffer_bytes is not None:
        plan = limit_buffers(plan, max_buffer_bytes)
    received = find_transport(transport)(plan, columns, link)
    _require_everyone(link, columns.lengths.device)
    return decompress_columns(received, compression)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDispatch:
    """A dispatch under way; nothing else may be sent over its group before it is done."""

    future: Future[Columns]

    @property
    def done(self) -> bool:
        """Whether `wait` returns, or raises, at once."""
        return self.future.done()

    def wait(self, timeout_s: float) -> Columns:
        """Return what `dispatch` returns, or raise what it raises.

        Raises:
            TimeoutError: If it is not done within `timeout_s`; it goes on and can be waited for
                again.
        """
        try:
            return self.future.result(timeout=timeout_s)
        except TimeoutError:
            if self.future.done():
                raise
            raise TimeoutError(f"the dispatch is not done after {timeout_s} s") from None


def start_dispatch(
    plan: TransferPlan,
    columns: Columns,
    *,
    transport: str,
    group: ProcessGroup | None,
    max_buffer_bytes: int | None = None,
    compress: Compression | None = None,
    timeout_s: float = 300.0,
) -> PendingDispatch:
    """Begin a dispatch in a thread, and return at once; the result is that of `dispatch`.

    Collectives of one group run in the order that they are called in, which a thread cannot keep
    to. Pass a group of its own (`torch.distributed.new_group`), and use it for nothing else until
    the dispatch is done. The columns must not be written to before that; on CUDA their values have
    to be there when it is called, which it waits for.

    Args:
        plan: As for `dispatch`, as the others are.
        columns: Rows this rank holds.
        transport: Name in `TRANSPORTS`.
        group: Ranks that take part, and that do nothing else over this group; None only for a
            process without any.
        max_buffer_bytes: Most bytes that a rank sends, and receives, at a time, if none of its rows
            is larger.
        compress: Columns that travel in fewer bytes, and how.
        timeout_s: Longest time to wait for the others in each exchange.

    Raises:
        ValueError: If `group` is None although there is a default group.
    """
    if group is None and torch.distributed.is_initialized():
        raise ValueError("start_dispatch needs a group of its own, got None for the default group")
    _settle(columns)
    future = Future[Columns]()

    def run() -> Columns:
        received = dispatch(
            plan,
            columns,
            transport=transport,
            group=group,
            max_buffer_bytes=max_buffer_bytes,
            compress=compress,
            timeout_s=timeout_s,
        )
        _settle(received)
        return received

    Thread(target=_fulfil, args=(future, run), name="earl_dispatch", daemon=True).start()
    return PendingDispatch(future=future)


def _fulfil(future: Future[Columns], run: Callable[[], Columns]) -> None:
    try:
        future.set_result(run())
    except BaseException as error:  # noqa: BLE001 - handed to whoever waits, whatever it is
        future.set_exception(error)


def _require_everyone(link: Link, device: torch.device) -> None:
    """Let no rank go on that others could not follow.

    Whoever exchanges nothing with a lost rank would not see that it is gone, and be left out when
    the others dispatch again.
    """
    word = torch.ones(1, dtype=torch.uint8, device=device)
    link.exchange([word] * link.num_ranks, [1] * link.num_ranks)


def _settle(columns: Columns) -> None:
    """Wait for work on the columns' values: a thread has a stream of its own."""
    if columns.lengths.device.type == "cuda":
        torch.cuda.synchronize(columns.lengths.device)
