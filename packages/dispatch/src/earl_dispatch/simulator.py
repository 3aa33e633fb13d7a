"""Transfers on clusters that one does not have: real plans on a model of the network."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Final

from earl_dispatch.hosts import Hosts
from earl_dispatch.layout import Layout
from earl_dispatch.network import Network, host_bounds, round_loads
from earl_dispatch.plan import TransferPlan, plan_transfer
from earl_dispatch.sizes import RowSizes
from earl_dispatch.transports.gather_scatter import central_plans

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A batch that lies evenly on all ranks and of which every host needs an even part of each."""

    name: str
    num_hosts: int
    ranks_per_host: int
    total_bytes: int
    network: Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """How long each way to move a scenario's batch takes, in seconds."""

    scenario: Scenario
    seconds: Mapping[str, float]
    """Transport -> time by latency and bandwidth, without work on the hosts."""
    floor_s: float
    """Time that no scheme goes below."""

    def ratio(self, transport: str) -> float:
        """Return how many times as long as `all_to_all` a transport takes."""
        return self.seconds[transport] / self.seconds["all_to_all"]


def simulate(scenario: Scenario) -> Simulated:
    """Plan a scenario's transfer and time it on its network.

    `gather_scatter` takes everything in before it hands anything out; `pipelined` does both at the
    same time over a full-duplex link. `ray_store` is a controller that fetches the batch from the
    workers' object stores into its own, from which they fetch it: over the network these are the
    gather's and the scatter's bytes, and its time is their sum (serialisation is left out).
    `shared_memory` is only for ranks of one host and needs no network.
    """
    num_parts = scenario.num_hosts**2 * scenario.ranks_per_host
    part_bytes = scenario.total_bytes / num_parts
    traffic = _traffic(scenario.num_hosts, scenario.ranks_per_host)
    seconds = {
        transport: sum(_time_s(scenario.network, loads, part_bytes) for loads in rounds)
        for transport, rounds in traffic.items()
    }
    busiest = max(traffic["floor"][0].values(), default=0)
    del seconds["floor"]
    return Simulated(
        scenario=scenario,
        seconds=seconds,
        floor_s=busiest * part_bytes / scenario.network.bytes_per_s,
    )


def plan_of(num_hosts: int, ranks_per_host: int) -> TransferPlan:
    """Return the plan of a scenario whose parts are a byte each.

    Rank r has a part for every host and sends that of host h to the rank of h that has its own
    place.
    """
    num_ranks = num_hosts * ranks_per_host
    groups = tuple((rank,) for rank in range(num_ranks))
    parts = [(rank, host) for rank in range(num_ranks) for host in range(num_hosts)]
    sizes = RowSizes(
        lengths=(1,) * len(parts),
        turns=(0,) * len(parts),
        token_bytes=1,
        num_bit_columns=0,
        turn_bytes=0,
        value_bytes=0,
    )
    return plan_transfer(
        Layout(owners=tuple(rank for rank, _ in parts), groups=groups),
        Layout(
            owners=tuple(host * ranks_per_host + rank % ranks_per_host for rank, host in parts),
            groups=groups,
        ),
        sizes=sizes,
        hosts=Hosts.equal(num_ranks=num_ranks, ranks_per_host=ranks_per_host),
    )


@cache
def _traffic(num_hosts: int, ranks_per_host: int) -> dict[str, list[dict[tuple[int, int], int]]]:
    """Return the parts between hosts in each round of every transport, and of the floor."""
    plan = plan_of(num_hosts, ranks_per_host)
    # A controller ignores which ranks share a host; its messages cross the same network.
    central = [replace(part, hosts=plan.hosts) for part in central_plans(plan)]
    gather, scatter = ([round_loads(p, n) for n in range(len(p.rounds))] for p in central)
    ingress, egress = host_bounds(plan)
    floor = {(host, -1): size for host, size in ingress.items()}
    floor |= {(-1, host): size for host, size in egress.items()}
    return {
        "gather_scatter": gather + scatter,
        "ray_store": gather + scatter,
        "pipelined": [_merge(gather + scatter)],
        "all_to_all": [round_loads(plan, number) for number in range(len(plan.rounds))],
        "floor": [floor],
    }


def _time_s(network: Network, loads: Mapping[tuple[int, int], int], part_bytes: float) -> float:
    return network.time_s({link: parts * part_bytes for link, parts in loads.items()})


def _merge(loads: Sequence[Mapping[tuple[int, int], int]]) -> dict[tuple[int, int], int]:
    merged = defaultdict[tuple[int, int], int](int)
    for part in loads:
        for link, size in part.items():
            merged[link] += size
    return dict(merged)


PAPER_FIGURE_4: Final[Mapping[str, tuple[int, float]]] = MappingProxyType({
    "8K": (46, 9.7),
    "16K": (93, 11.0),
    "32K": (187, 11.2),
})
"""Context -> (MiB of each worker, times that dispatch became faster): EARL (arXiv:2510.05943),
section 3.3 and figure 4, reference-model log-probs on 16 hosts with 200 Gbps links."""

PAPER_TABLE_1_MIB: Final[Mapping[str, int]] = MappingProxyType({
    "1K": 15_625,
    "2K": 31_250,
    "4K": 62_500,
    "8K": 125_000,
    "16K": 250_000,
    "32K": 500_000,
})
"""Context -> MiB of an intermediate batch on 1,024 GPUs: EARL (arXiv:2510.05943), table 1."""


def figure_4(*, latency_s: float | int = 0.0) -> list[tuple[Simulated, float]]:
    """Replay figure 4 with 8 workers on each of its 16 hosts: (simulated, the paper's ratio)."""
    network = Network.gbps(200, latency_s=latency_s)
    return [
        (
            simulate(
                Scenario(
                    name=context,
                    num_hosts=16,
                    ranks_per_host=8,
                    total_bytes=mib * 16 * 8 * _MIB,
                    network=network,
                )
            ),
            ratio,
        )
        for context, (mib, ratio) in PAPER_FIGURE_4.items()
    ]


def table_1(*, gbps: float | int, latency_s: float | int = 0.0) -> list[Simulated]:
    """Time table 1's batches on 128 hosts; one rank stands for the 8 GPUs that share a link.

    Args:
        gbps: Rate of a host's link in 10^9 bits per second.
        latency_s: Time of a message besides its bytes.
    """
    network = Network.gbps(gbps, latency_s=latency_s)
    return [
        simulate(
            Scenario(
                name=context,
                num_hosts=128,
                ranks_per_host=1,
                total_bytes=mib * _MIB,
                network=network,
            )
        )
        for context, mib in PAPER_TABLE_1_MIB.items()
    ]
