"""What a transfer costs on hosts that are joined by a network: latency, bandwidth, floors.

Every host has one link to a switch that does not block, the same rate in each direction; time on a
link is the latency of each message plus bytes over rate (Hockney 1994, Parallel Computing 20(3)).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from earl_dispatch.bounds import irreplaceable_bytes, missing_bytes
from earl_dispatch.plan import TransferPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What goes from one host to another."""

    num_bytes: float | int
    num_messages: int = 1
    """From rank to rank; those of one pair of ranks at one time are one."""

    def __add__(self, other: "Load") -> "Load":
        """Put two loads on the same way."""
        return Load(
            num_bytes=self.num_bytes + other.num_bytes,
            num_messages=self.num_messages + other.num_messages,
        )


Loads = Mapping[tuple[int, int], Load]
"""(source host, target host) -> what goes there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Links of equal hosts."""

    bytes_per_s: float | int
    """Rate of a host's link, in each direction."""
    latency_s: float | int = 0.0
    """Time that a message takes besides its bytes."""

    def __post_init__(self) -> None:
        if not self.bytes_per_s > 0 or self.latency_s < 0:
            raise ValueError(
                f"a network needs bytes_per_s > 0 and latency_s >= 0, got {self.bytes_per_s} and "
                f"{self.latency_s}"
            )

    @classmethod
    def gbps(cls, rate: float | int, *, latency_s: float | int = 0.0) -> "Network":
        """Describe links by their rate in 10^9 bits per second."""
        return cls(bytes_per_s=rate * 1e9 / 8, latency_s=latency_s)

    def time_s(self, loads: Loads) -> float:
        """Return how long messages that are all sent at once take: the busiest host decides.

        max over hosts and directions of (latency x messages + bytes / rate).
        """
        costs = defaultdict[tuple[str, int], float](float)
        for (source, target), load in loads.items():
            if source != target and load.num_bytes:
                cost = load.num_messages * self.latency_s + load.num_bytes / self.bytes_per_s
                costs["out", source] += cost
                costs["in", target] += cost
        return max(costs.values(), default=0.0)


def round_loads(plan: TransferPlan, number: int) -> dict[tuple[int, int], Load]:
    """Return what goes from host to host in one round of a plan."""
    return add_loads(
        (
            (plan.hosts.of[transfer.source_rank], plan.hosts.of[transfer.target_rank]),
            Load(num_bytes=plan.bytes_of(transfer)),
        )
        for transfer in plan.rounds[number]
    )


def add_loads(parts: Iterable[tuple[tuple[int, int], Load]]) -> dict[tuple[int, int], Load]:
    """Put the loads of each way together; what is empty is no message."""
    loads: dict[tuple[int, int], Load] = {}
    for way, load in parts:
        if load.num_bytes:
            loads[way] = loads[way] + load if way in loads else load
    return loads


def predicted_time_s(plan: TransferPlan, network: Network) -> float:
    """Return how long the rounds of a plan take one after the other, without work on the hosts."""
    times_s = [network.time_s(round_loads(plan, number)) for number in range(len(plan.rounds))]
    return sum(times_s, start=0.0)


def floor_time_s(plan: TransferPlan, network: Network) -> float:
    """Return the time that no scheme goes below.

    max over hosts n of max(I_n, E_n) / rate, with I_n the bytes that some rank of n needs and none
    holds, and E_n those that are needed elsewhere and of which n is the only holder.
    """
    ingress, egress = host_bounds(plan)
    busiest = max([*ingress.values(), *egress.values()], default=0)
    return busiest / network.bytes_per_s


def host_bounds(plan: TransferPlan) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Return the fewest bytes into each host, and out of each host that alone holds them."""
    parts = plan.source, plan.target, plan.sizes, plan.hosts
    ingress, egress = missing_bytes(*parts), irreplaceable_bytes(*parts)
    return (
        {host: size for host, size in ingress.items() if size},
        {host: size for host, size in egress.items() if size},
    )


def balanced_floors(
    total_bytes: float | int, num_hosts: int, network: Network
) -> Mapping[str, float]:
    """Return the closed-form floors for a batch that is spread and needed evenly over M hosts.

    A controller on one of them takes in and gives out S (1 - 1/M) each, one after the other, or at
    the same time over a full-duplex link; direct transfers load every link with S/M (1 - 1/M).

    Returns:
        Seconds of "gather_scatter", of it "pipelined", and of "all_to_all".
    """
    crossing = total_bytes * (1 - 1 / num_hosts)
    return {
        "gather_scatter": 2 * crossing / network.bytes_per_s,
        "pipelined": crossing / network.bytes_per_s,
        "all_to_all": crossing / num_hosts / network.bytes_per_s,
    }
