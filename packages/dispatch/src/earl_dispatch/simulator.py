"""Transfers on clusters that one does not have: real plans on a model of the network."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from earl_dispatch.hosts import Hosts
from earl_dispatch.layout import Layout
from earl_dispatch.network import Loads, Network, add_loads, host_bounds, round_loads
from earl_dispatch.plan import TransferPlan, plan_transfer
from earl_dispatch.sizes import RowSizes
from earl_dispatch.transports.gather_scatter import central_plans

DIRECT: Final = "all_to_all"
"""The transport that the others are compared with."""
MAX_PARTS: Final = 2**20
"""Parts of the largest batch that is planned: ten seconds and a gigabyte or so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A batch that lies evenly on all ranks and of which every host needs an even part of each."""

    name: str
    num_hosts: int
    ranks_per_host: int
    total_bytes: int
    network: Network

    def __post_init__(self) -> None:
        if self.num_hosts < 2 or self.ranks_per_host < 1 or self.total_bytes < 1:
            raise ValueError(
                "a scenario needs 2 hosts or more (one alone needs no network), ranks and bytes, "
                f"got {self.num_hosts} hosts, {self.ranks_per_host} ranks on each and "
                f"{self.total_bytes} bytes"
            )
        if self.num_parts > MAX_PARTS:
            raise ValueError(
                f"hosts^2 x ranks per host must be <= {MAX_PARTS}, got {self.num_hosts}^2 x "
                f"{self.ranks_per_host}; one rank can stand for all that share a host's link"
            )

    @property
    def num_parts(self) -> int:
        """Parts of the batch: every rank has one for every host."""
        return self.num_hosts**2 * self.ranks_per_host

    @property
    def rank_bytes(self) -> float:
        """Bytes that each rank holds."""
        return self.total_bytes / (self.num_hosts * self.ranks_per_host)


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
        return self.seconds[transport] / self.seconds[DIRECT]


def simulate(scenario: Scenario) -> Simulated:
    """Plan a scenario's transfer and time it on its network.

    `gather_scatter` takes everything in before it hands anything out; `pipelined` does both at the
    same time over a full-duplex link. `ray_store` is a controller that fetches the batch from the
    workers' object stores into its own, from which they fetch it: over the network these are the
    gather's and the scatter's bytes, and its time is their sum (serialisation is left out).
    `shared_memory` is only for ranks of one host and needs no network.
    """
    part_bytes = scenario.total_bytes / scenario.num_parts
    traffic, busiest = _traffic(scenario.num_hosts, scenario.ranks_per_host)
    seconds = {
        transport: sum(_time_s(scenario.network, loads, part_bytes) for loads in rounds)
        for transport, rounds in traffic.items()
    }
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
def _traffic(num_hosts: int, ranks_per_host: int) -> tuple[dict[str, list[Loads]], int]:
    """Return what goes between hosts in each round of every transport, a byte for each part.

    Also the most parts that have to go into a host, or out of one, whatever the scheme.
    """
    plan = plan_of(num_hosts, ranks_per_host)
    # A controller ignores which ranks share a host; its messages cross the same network.
    central = [replace(part, hosts=plan.hosts) for part in central_plans(plan)]
    gather, scatter = ([round_loads(p, n) for n in range(len(p.rounds))] for p in central)
    ingress, egress = host_bounds(plan)
    traffic: dict[str, list[Loads]] = {
        DIRECT: [round_loads(plan, number) for number in range(len(plan.rounds))],
        "pipelined": [add_loads(part for loads in gather + scatter for part in loads.items())],
        "gather_scatter": [*gather, *scatter],
        "ray_store": [*gather, *scatter],
    }
    return traffic, max(*ingress.values(), *egress.values())


def _time_s(network: Network, loads: Loads, part_bytes: float) -> float:
    return network.time_s({
        way: replace(load, num_bytes=load.num_bytes * part_bytes) for way, load in loads.items()
    })
