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
from dispatch_one_host import one_host_figures, plan_figures
from dispatch_plot import draw_times
from dispatch_ranks import Batch, Dispatched, Ranks, started_ranks
from dispatch_ray import ray_cluster
from earl_dispatch import TransferPlan
from earl_dispatch.network import Network, balanced_floors
from earl_dispatch.transports.gather_scatter import central_plans
from emulated_hosts import EmulatedHosts, Traffic, copy_rates, emulated_hosts

DIRECT = "all_to_all"
BASELINES: Mapping[str, int] = {"gather_scatter": 2, "pipelined": 1}
"""Transport -> times of `all_to_all` for each host that the topology allows."""
RAY = "ray_store"
"""Gathers and scatters as `gather_scatter` does; how near it comes to the floor is Ray's affair."""
PAPERS_BEST = 11.2
_REACH = 0.8
_OVER_FLOOR = "<= 1.25"
_WARM_UP_TOKENS = 8
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
    ray_max_hosts: int
    """Most hosts that Ray is measured on: each runs half a dozen processes of its own."""


FULL = Case(
    num_hosts=(4, 8, 16),
    tokens_per_row=(3584, 4608, 5632),
    bits_per_s=8_000_000,
    copy_bytes=4_000_000,
    memory_tokens_per_row=1 << 17,
    ray_max_hosts=8,
)
QUICK = Case(
    num_hosts=(4,),
    tokens_per_row=(1024, 1536, 2048),
    bits_per_s=8_000_000,
    copy_bytes=500_000,
    memory_tokens_per_row=1 << 15,
    ray_max_hosts=4,
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


def measure(
    batch: Batch, ranks: Ranks, hosts: EmulatedHosts, transports: Sequence[str]
) -> list[Measured]:
    """Run transports on a batch.

    Raises:
        RuntimeError: If a result differs in a bit from what the batch's plan is for.
    """
    network = Network(bytes_per_s=hosts.bytes_per_s)
    floors = balanced_floors(batch.total_bytes, batch.num_hosts, network)
    measured: list[Measured] = []
    for transport in transports:
        floor_s = floors["gather_scatter" if transport == RAY else transport]
        num_repeats = 1 if floor_s > _LONG_S else _NUM_REPEATS
        runs: list[Dispatched] = [ranks.dispatch(batch, transport) for _ in range(num_repeats)]
        if {run.digests for run in runs} != {batch.expected_digests}:
            raise RuntimeError(f"{transport} gives a wrong result")
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
        figures |= {f"hosts_{num_hosts}_{n}": figure for n, figure in _host_figures(here).items()}
        if num_hosts == 16:
            figures["beyond_the_paper"] = Figure(
                value=min(ratios(here, "gather_scatter")), unit="times", goal=f"> {PAPERS_BEST}"
            )
    return figures


def _host_figures(measured: Sequence[Measured]) -> dict[str, Figure]:
    """Judge the measurements of one number of hosts."""
    num_hosts = measured[0].batch.num_hosts
    judged = [each for each in measured if each.transport != RAY]
    figures = {
        f"{transport}_over_floor": Figure(
            value=max(e.median_s / e.floor_s for e in judged if e.transport == transport),
            unit="of floor",
            goal=_OVER_FLOOR,
        )
        for transport in (DIRECT, *BASELINES)
    }
    for transport, per_host in {**BASELINES, RAY: BASELINES["gather_scatter"]}.items():
        if found := ratios(measured, transport):
            figures[f"ratio_to_{transport}"] = Figure(
                value=min(found), unit="times", goal=f">= {_REACH * per_host * num_hosts:.1f}"
            )
    # Ray's own messages are not planned.
    bytes_off = max(each.bytes_off for each in judged)
    figures["bytes_off_plan"] = Figure(value=bytes_off, unit="of plan", goal="<= 0.03")
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
        batches = [Batch(num_hosts=num_hosts, tokens_per_row=n) for n in case.tokens_per_row]
        with emulated_hosts(num_hosts, bits_per_s=case.bits_per_s) as hosts:
            figures[f"hosts_{num_hosts}_plain_copy"] = copy_figure(hosts, case.copy_bytes)
            with started_ranks(hosts) as ranks:
                ranks.dispatch(Batch(num_hosts=num_hosts, tokens_per_row=_WARM_UP_TOKENS), DIRECT)
                for batch in batches:
                    measured += measure(batch, ranks, hosts, (DIRECT, *BASELINES))
            if num_hosts <= case.ray_max_hosts:
                measured += measure_ray(batches, hosts)
    figures |= network_figures(measured)
    figures |= one_host_figures(tokens_per_row=case.memory_tokens_per_row, num_repeats=9)
    figures |= plan_figures(num_rows=100_000, num_ranks=1024, ranks_per_host=8)
    rows = [each.row() for each in measured]
    draw_times(rows, plot)
    return figures, rows


def measure_ray(batches: Sequence[Batch], hosts: EmulatedHosts) -> list[Measured]:
    """Run batches through the object store, after the others, which Ray's processes would slow."""
    with ray_cluster(hosts) as address, started_ranks(hosts) as ranks:
        ranks.attach(address)
        # Makes the actor, and the connections between the nodes.
        ranks.dispatch(Batch(num_hosts=hosts.num_hosts, tokens_per_row=_WARM_UP_TOKENS), RAY)
        return [each for batch in batches for each in measure(batch, ranks, hosts, (RAY,))]


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
