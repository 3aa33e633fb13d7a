"""What the dispatcher does without a network: making plans, and moving rows on one host."""

import random
import statistics
import time
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.distributed as dist
from benchmarking import Figure
from earl_dispatch import Columns, Hosts, Layout, RowSizes, dispatch, plan_transfer
from earl_dispatch.placement import place_rows
from earl_dispatch.testing import run_ranks

_PARTS = 16
"""Parts that shared memory moves a batch in, so that it holds little of it twice."""


def plan_figures(*, num_rows: int, num_ranks: int, ranks_per_host: int) -> dict[str, Figure]:
    """Plan rows of all lengths up to 32K, and place them freely."""
    rng = random.Random(0)
    lengths = [rng.randint(1, 1 << 15) for _ in range(num_rows)]
    sizes = RowSizes(
        lengths=tuple(lengths),
        turns=(5,) * num_rows,
        token_bytes=12,
        num_bit_columns=1,
        turn_bytes=4,
        value_bytes=8,
    )
    source = Layout.contiguous(num_rows=num_rows, num_ranks=num_ranks)
    target = Layout.balanced(lengths, num_ranks=num_ranks)
    hosts = Hosts.equal(num_ranks=num_ranks, ranks_per_host=ranks_per_host)
    times_s: list[float] = []
    for _ in range(5):
        start_s = time.perf_counter()
        plan_transfer(source, target, sizes=sizes, hosts=hosts)
        times_s.append(time.perf_counter() - start_s)
    placement = place_rows(source, target, sizes=sizes, hosts=hosts)
    surplus = placement.bytes_between_hosts - placement.bytes_between_hosts_minimum
    longest = max(map(sizes.row_bytes, range(num_rows)))
    return {
        "plan": Figure(value=statistics.median(times_s), unit="s", goal="< 1"),
        "placement_over_minimum": Figure(
            value=abs(surplus) / longest / hosts.num_hosts, unit="rows a host", goal="<= 1"
        ),
    }


def memory_figures(*, tokens_per_row: int, num_repeats: int) -> dict[str, Figure]:
    """Swap the rows of two ranks of one host through shared memory, and over gloo."""
    ranks = run_ranks(2, _swap, tokens_per_row, num_repeats, timeout_s=300.0)
    fastest = {
        # The slower rank of each repetition counts.
        name: min(map(max, zip(*(rank[name] for rank in ranks), strict=True)))
        for name in ("shared_memory", "all_to_all")
    }
    received_bytes = ranks[0]["received_bytes"][0]
    return {
        "one_host_shared_memory": Figure(value=fastest["shared_memory"], unit="s", goal=""),
        "one_host_all_to_all": Figure(value=fastest["all_to_all"], unit="s", goal=""),
        "one_host_ratio": Figure(
            value=fastest["all_to_all"] / fastest["shared_memory"], unit="times", goal=">= 3"
        ),
        "one_host_peak_memory": Figure(
            value=max(rank["peak_bytes"][0] for rank in ranks) / received_bytes,
            unit="of received",
            goal="<= 1.2",
        ),
    }


def _swap(tokens_per_row: int, num_repeats: int) -> Mapping[str, list[float]]:
    """Run on each rank; the first dispatch of a transport is not timed."""
    num_rows, rank = 128, dist.get_rank()
    owners = tuple(row % 2 for row in range(num_rows))
    columns = _columns(num_rows // 2, tokens_per_row)
    plan = plan_transfer(
        Layout(owners=owners, groups=((0,), (1,))),
        Layout(owners=owners, groups=((1,), (0,))),
        sizes=RowSizes.of(columns.schema(), [tokens_per_row] * num_rows),
    )
    received_bytes = plan.bytes_received(rank)
    measured: dict[str, list[float]] = {"received_bytes": [received_bytes]}
    limits = {"shared_memory": -(-received_bytes // _PARTS), "all_to_all": None}
    for transport, limit in limits.items():
        measured[transport] = []
        for repeat in range(1 + num_repeats):
            dist.barrier()
            before = _reset_peak()
            start_s = time.perf_counter()
            result = dispatch(plan, columns, transport=transport, max_buffer_bytes=limit)
            if repeat:
                measured[transport].append(time.perf_counter() - start_s)
                measured.setdefault("peak_bytes", []).append(_status_bytes("VmHWM") - before)
            del result
    return measured


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


def _reset_peak() -> int:
    """Let the kernel count the peak of this process's memory anew; return what it has now."""
    # proc(5): 5 resets VmHWM to the current resident size. It counts memory that is shared with
    # another rank in full, what a segment takes is so charged to both who write and read it.
    Path("/proc/self/clear_refs").write_text("5")
    return _status_bytes("VmRSS")


def _status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/self/status has no {name}")
