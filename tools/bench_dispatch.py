"""Dispatch real batches between emulated hosts, each way, and compare with the network's floors.

Needs root and iproute2. `--quick` takes 4 hosts and short rows and needs --out.
"""

import argparse
import signal
import statistics
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarking import STORE, Figure, report
from dispatch_one_host import memory_figures, plan_figures
from dispatch_plot import draw_times
from dispatch_ranks import Batch, Dispatched, Ranks, started_ranks
from earl_dispatch import TransferPlan
from earl_dispatch.network import Network, balanced_floors
from earl_dispatch.transports.gather_scatter import central_plans
from emulated_hosts import EmulatedHosts, Traffic, copy_rates, emulated_hosts

DIRECT = "all_to_all"
BASELINES: Mapping[str, int] = {"gather_scatter": 2, "pipelined": 1}
"""Transport -> times of `all_to_all` for each host that the topology allows."""
PAPERS_BEST = 11.2
_REACH = 0.8
_OVER_FLOOR = "<= 1.25"
# The network is deterministic: what takes long is not repeated.
_LONG_S = 4.0
_NUM_REPEATS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is measured."""

    num_hosts: Sequence[int]
    tokens_per_row: Sequence[int]
    bits_per_s: int
    copy_bytes: int
    memory_tokens_per_row: int


FULL = Case(
    num_hosts=(4, 8, 16),
    tokens_per_row=(3072, 4608, 6144),
    bits_per_s=8_000_000,
    copy_bytes=4_000_000,
    memory_tokens_per_row=1 << 17,
)
QUICK = Case(
    num_hosts=(4,),
    tokens_per_row=(1024, 1536, 2048),
    bits_per_s=8_000_000,
    copy_bytes=500_000,
    memory_tokens_per_row=1 << 12,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One transport on one batch."""

    batch: Batch
    transport: str
    times_s: Sequence[float]
    floor_s: float
    planned: Sequence[tuple[int, int]]
    """Bytes that each host is to send, and to receive."""
    counted: Sequence[tuple[Traffic, Traffic]]
    """What it sent, and received, in the last run."""

    @property
    def median_s(self) -> float:
        """Median of the times."""
        return statistics.median(self.times_s)

    @property
    def bytes_off(self) -> float:
        """Largest difference of what a link carried from the plan, as a share of the plan."""
        return max(
            abs(traffic.payload_bytes - num_bytes) / num_bytes
            for counted, planned in zip(self.counted, self.planned, strict=True)
            for traffic, num_bytes in zip(counted, planned, strict=True)
        )

    def row(self) -> dict[str, object]:
        """Return what is stored."""
        return {
            "hosts": self.batch.num_hosts,
            "tokens_per_row": self.batch.tokens_per_row,
            "total_bytes": self.batch.total_bytes,
            "transport": self.transport,
            "seconds": self.median_s,
            "times_s": list(self.times_s),
            "floor_s": self.floor_s,
            "planned_sent_and_received_bytes": list(map(list, self.planned)),
            "counted_sent_and_received_bytes": [
                [traffic.payload_bytes for traffic in counted] for counted in self.counted
            ],
            "packets_sent_and_received": [
                [traffic.num_packets for traffic in counted] for counted in self.counted
            ],
        }


def measure(batch: Batch, ranks: Ranks, hosts: EmulatedHosts) -> list[Measured]:
    """Run every transport on a batch; all must give the same result.

    Raises:
        RuntimeError: If two results differ in a bit.
    """
    network = Network(bytes_per_s=hosts.bytes_per_s)
    floors = balanced_floors(batch.total_bytes, batch.num_hosts, network)
    measured: list[Measured] = []
    digests: set[tuple[str, ...]] = set()
    for transport in (DIRECT, *BASELINES):
        floor_s = floors[transport]
        num_repeats = 1 if floor_s > _LONG_S else _NUM_REPEATS
        runs: list[Dispatched] = [ranks.dispatch(batch, transport) for _ in range(num_repeats)]
        digests |= {run.digests for run in runs}
        if len(digests) > 1:
            raise RuntimeError(f"{transport} gives another result than {DIRECT}")
        measured.append(
            Measured(
                batch=batch,
                transport=transport,
                times_s=[run.seconds for run in runs],
                floor_s=floor_s,
                planned=planned_bytes(batch.plan, transport),
                counted=list(zip(runs[-1].sent, runs[-1].received, strict=True)),
            )
        )
        print(f"{batch.num_hosts} hosts, {batch.tokens_per_row} tokens, {transport}: "
              f"{measured[-1].median_s:.3f} s, floor {floor_s:.3f} s", flush=True)  # fmt: skip
    return measured


def planned_bytes(plan: TransferPlan, transport: str) -> list[tuple[int, int]]:
    """Return the bytes that each rank sends, and receives, by the plan of a transport."""
    plans = [plan] if transport == DIRECT else central_plans(plan)
    return [
        (sum(p.bytes_sent(rank) for p in plans), sum(p.bytes_received(rank) for p in plans))
        for rank in range(plan.num_ranks)
    ]


def network_figures(measured: Sequence[Measured]) -> dict[str, Figure]:
    """Judge by the worst context of each number of hosts."""
    figures: dict[str, Figure] = {}
    for num_hosts in sorted({each.batch.num_hosts for each in measured}):
        here = [each for each in measured if each.batch.num_hosts == num_hosts]
        name = f"hosts_{num_hosts}"
        for transport in (DIRECT, *BASELINES):
            figures[f"{name}_{transport}_over_floor"] = Figure(
                value=max(e.median_s / e.floor_s for e in here if e.transport == transport),
                unit="of floor",
                goal=_OVER_FLOOR,
            )
        for transport, per_host in BASELINES.items():
            figures[f"{name}_ratio_to_{transport}"] = Figure(
                value=min(ratios(here, transport)),
                unit="times",
                goal=f">= {_REACH * per_host * num_hosts:.1f}",
            )
        figures[f"{name}_bytes_off_plan"] = Figure(
            value=max(each.bytes_off for each in here), unit="of plan", goal="<= 0.03"
        )
        if num_hosts == 16:
            figures["beyond_the_paper"] = Figure(
                value=min(ratios(here, "gather_scatter")), unit="times", goal=f"> {PAPERS_BEST}"
            )
    return figures


def ratios(measured: Sequence[Measured], transport: str) -> list[float]:
    """Return how many times as long as the direct transfer one takes, for each batch."""
    seconds = {(each.batch, each.transport): each.median_s for each in measured}
    return [
        slow / seconds[batch, DIRECT]
        for (batch, name), slow in seconds.items()
        if name == transport
    ]


def copy_figure(hosts: EmulatedHosts, num_bytes: int) -> Figure:
    """Verify the links: a plain copy, both ways at once, takes the rate that was set."""
    rates = copy_rates(hosts, 0, hosts.num_hosts - 1, num_bytes=num_bytes)
    return Figure(value=min(rates) / hosts.bytes_per_s, unit="of rate", goal=">= 0.95")


def run(case: Case, plot: Path) -> tuple[dict[str, Figure], list[dict[str, object]]]:
    """Measure a case."""
    figures: dict[str, Figure] = {}
    measured: list[Measured] = []
    for num_hosts in case.num_hosts:
        with emulated_hosts(num_hosts, bits_per_s=case.bits_per_s) as hosts:
            figures[f"hosts_{num_hosts}_plain_copy"] = copy_figure(hosts, case.copy_bytes)
            with started_ranks(hosts) as ranks:
                for tokens_per_row in case.tokens_per_row:
                    batch = Batch(num_hosts=num_hosts, tokens_per_row=tokens_per_row)
                    measured += measure(batch, ranks, hosts)
    figures |= network_figures(measured)
    figures |= memory_figures(tokens_per_row=case.memory_tokens_per_row, num_repeats=5)
    figures |= plan_figures(num_rows=100_000, num_ranks=1024, ranks_per_host=8)
    rows = [each.row() for each in measured]
    draw_times(rows, plot)
    return figures, rows


@contextmanager
def ends_by_exception() -> Generator[None, None, None]:
    """Let a termination signal clean up as Ctrl-C does."""

    def leave(number: int, frame: object) -> None:
        del frame
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few and small; needs --out")
    parser.add_argument("--out", type=Path, default=None, help="where to store the JSON")
    arguments = parser.parse_args()
    if arguments.quick and arguments.out is None:
        parser.error("--quick needs --out, since the stored file is of a full run")
    target: Path = arguments.out or STORE / "dispatch.json"
    with ends_by_exception():
        figures, rows = run(QUICK if arguments.quick else FULL, target.with_suffix(".png"))
    report(figures, rows, target=target)


if __name__ == "__main__":
    main()
