"""What the dispatcher does without a network: making plans, and moving rows on one host."""

import os
import random
import statistics
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from resource import getpagesize

import torch
import torch.distributed as dist
from benchmarking import Figure
from dispatch_memory import return_freed_memory, sampled_peak
from earl_dispatch import (
    Columns,
    Hosts,
    Layout,
    RowSizes,
    TransferPlan,
    dispatch,
    place_rows,
    plan_transfer,
)
from earl_dispatch.testing import run_ranks

_TRANSPORTS = ("shared_memory", "all_to_all")
_COPY = "plain_copy"
_ROWS_PER_RANK = 64


def plan_figures(*, num_rows: int, num_ranks: int, ranks_per_host: int) -> dict[str, Figure]:
    """Place rows of all lengths up to 32K freely, and plan their transfer.

    They lie evenly on the ranks, or skewed: the first hosts hold several times as many as the last.
    """
    rng = random.Random(0)
    sizes = RowSizes(
        lengths=tuple(rng.randint(1, 1 << 15) for _ in range(num_rows)),
        turns=(5,) * num_rows,
        token_bytes=12,
        num_bit_columns=1,
        turn_bytes=4,
        value_bytes=8,
    )
    even = Layout.contiguous(num_rows=num_rows, num_ranks=num_ranks)
    owners = tuple(int(num_ranks * rng.random() ** 2) for _ in range(num_rows))
    hosts = Hosts.equal(num_ranks=num_ranks, ranks_per_host=ranks_per_host)
    longest = max(sizes.all_row_bytes())
    figures: dict[str, Figure] = {}
    for name, source in (("plan", even), ("plan_skewed", replace(even, owners=owners))):
        runs = [_place_and_plan(source, even, sizes, hosts) for _ in range(5)]
        median_s = statistics.median(seconds for seconds, _ in runs)
        rows_per_host = abs(runs[0][1]) / longest / hosts.num_hosts
        figures |= {
            name: Figure(value=median_s, unit="s", goal="< 1"),
            f"{name}_over_minimum": Figure(value=rows_per_host, unit="rows a host", goal="<= 1"),
        }
    return figures


def _place_and_plan(
    source: Layout, groups: Layout, sizes: RowSizes, hosts: Hosts
) -> tuple[float, float]:
    """Return the seconds, and the bytes between hosts beyond the minimum."""
    start_s = time.perf_counter()
    placement = place_rows(source, groups, sizes=sizes, hosts=hosts)
    plan = plan_transfer(source, placement.layout, sizes=sizes, hosts=hosts)
    seconds = time.perf_counter() - start_s
    return seconds, plan.bytes_between_hosts - placement.bytes_between_hosts_minimum


def one_host_figures(*, tokens_per_row: int, num_repeats: int) -> dict[str, Figure]:
    """Swap the rows of two ranks of one host through shared memory, and over gloo.

    A plain copy of as much, by both ranks at the same time, shows what the memory allows.
    """
    ranks = run_ranks(2, _time_swaps, tokens_per_row, num_repeats, timeout_s=300.0)
    medians = {
        # The slower rank of each repetition counts.
        name: statistics.median(map(max, zip(*(rank[name] for rank in ranks), strict=True)))
        for name in (*_TRANSPORTS, _COPY)
    }
    shares = run_ranks(2, _swap_and_watch, tokens_per_row, timeout_s=300.0)
    shared, gloo = (medians[name] for name in _TRANSPORTS)
    return {
        **{
            f"one_host_{name}": Figure(value=seconds, unit="s", goal="")
            for name, seconds in medians.items()
        },
        "one_host_ratio": Figure(value=gloo / shared, unit="times", goal=">= 3"),
        "one_host_peak_memory": Figure(value=shares[0], unit="of received", goal="<= 1.2"),
    }


def _time_swaps(tokens_per_row: int, num_repeats: int) -> Mapping[str, list[float]]:
    """Run on each rank; the first time is not counted."""
    plan, columns = _swap(tokens_per_row)
    times_s: dict[str, list[float]] = {name: [] for name in (*_TRANSPORTS, _COPY)}
    for _ in range(1 + num_repeats):
        for name, seconds in times_s.items():
            dist.barrier()
            start_s = time.perf_counter()
            result = _copy(columns) if name == _COPY else dispatch(plan, columns, transport=name)
            _touch(result)
            seconds.append(time.perf_counter() - start_s)
            del result
    return {name: seconds[1:] for name, seconds in times_s.items()}


def _swap_and_watch(tokens_per_row: int) -> float:
    """Run on each rank; return the most memory that both took, as a share of what they received.

    It is what all ranks hold beside their source columns, result included, at the same time.
    """
    return_freed_memory()
    rank = dist.get_rank()
    plan, columns = _swap(tokens_per_row)
    small_plan, small_columns = _swap(1)
    dispatch(small_plan, small_columns, transport="shared_memory")
    pids: list[int] = [0, 0]
    dist.all_gather_object(pids, os.getpid())
    return_freed_memory()
    dist.barrier()
    watch = sampled_peak(pids) if rank == 0 else nullcontext(None)
    with watch as peak:
        dist.barrier()
        result = dispatch(plan, columns, transport="shared_memory")
        _touch(result)
        dist.barrier()
    dist.barrier()
    received_bytes = plan.bytes_received(0) + plan.bytes_received(1)
    return peak.added_bytes / received_bytes if peak else 0.0


def _swap(tokens_per_row: int) -> tuple[TransferPlan, Columns]:
    """Return the plan by which two ranks swap all rows, and what one of them holds."""
    owners = tuple(row % 2 for row in range(2 * _ROWS_PER_RANK))
    columns = _columns(_ROWS_PER_RANK, tokens_per_row)
    plan = plan_transfer(
        Layout(owners=owners, groups=((0,), (1,))),
        Layout(owners=owners, groups=((1,), (0,))),
        sizes=RowSizes.of(columns.schema(), [tokens_per_row] * len(owners)),
    )
    return plan, columns


def _copy(columns: Columns) -> Columns:
    """Copy the values to memory that is new."""
    per_token = {name: column.clone() for name, column in columns.per_token.items()}
    return replace(columns, per_token=per_token)


def _touch(columns: Columns) -> None:
    """Read from every page, as a process may first have to map it."""
    for column in columns.per_token.values():
        column[:: getpagesize() // column.itemsize].sum()


def _columns(num_rows: int, tokens_per_row: int) -> Columns:
    num_tokens = num_rows * tokens_per_row
    return Columns(
        lengths=torch.full((num_rows,), tokens_per_row),
        per_token={
            "ids": torch.ones(num_tokens, dtype=torch.int32),
            "mask": torch.ones(num_tokens, dtype=torch.bool),
            "logprobs": torch.ones(num_tokens),
            "ref_logprobs": torch.ones(num_tokens),
        },
    )
