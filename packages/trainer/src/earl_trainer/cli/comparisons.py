"""What `earl plan dispatch` compares, and in which words."""

from collections.abc import Sequence

from earl_dispatch.comparison import Comparison
from earl_dispatch.network import Network
from earl_dispatch.replays import FIGURE_4_GBPS, TABLE_1_GBPS, figure_4, table_1
from earl_dispatch.simulator import Scenario, simulate

from earl_trainer.cli.columns import align

_MIB = 2**20

_MODEL = """\
Counted: bytes over one full-duplex link of each host to a switch that does not block, and {latency}
us for each message. Not counted: work on the hosts (serialising, copying, Python), the start of
TCP connections, congestion. Nothing is fitted. `ray_store` moves the bytes of `gather_scatter`;
`shared_memory` joins the ranks of one host and uses no network.
"""
_PAPER = """\
With M hosts the topology allows 2M times, and M times against a controller that takes in and hands
out at once (`pipelined`); latency takes the rest. The 9.7 to 11.2 times that the paper measured at
M = 16 are a third of 2M. Its time axis reaches 80 s where links of 200 Gbps need 2 s, so most of
what it measured on both sides is likely work on the hosts. Of table 1 it gives the sizes only.
"""


def replays(*, gbps: float | None, latency_us: float) -> list[Comparison]:
    """Replay what the EARL paper reports: its figure 4, then its table 1.

    Args:
        gbps: Rate of a host's link in 10^9 bits per second; by default those of the paper.
        latency_us: Time of a message besides its bytes, in microseconds.
    """
    latency_s = latency_us / 1e6
    rates = TABLE_1_GBPS if gbps is None else (gbps,)
    return [
        figure_4(gbps=FIGURE_4_GBPS if gbps is None else gbps, latency_s=latency_s),
        *(table_1(gbps=rate, latency_s=latency_s) for rate in rates),
    ]


def own_cluster(
    *, num_hosts: int, ranks_per_host: int, total_mib: float, gbps: float, latency_us: float
) -> Comparison:
    """Compare the transports for one batch that lies evenly on a user's cluster.

    Raises:
        ValueError: If there is one host only, or more ranks than can be planned.
    """
    scenario = Scenario(
        name="your batch",
        num_hosts=num_hosts,
        ranks_per_host=ranks_per_host,
        total_bytes=round(total_mib * _MIB),
        network=Network.gbps(gbps, latency_s=latency_us / 1e6),
    )
    return Comparison(
        title=f"{num_hosts} hosts x {ranks_per_host} ranks at {gbps:g} Gbps",
        simulated=(simulate(scenario),),
    )


def describe(comparisons: Sequence[Comparison], *, latency_us: float) -> str:
    """Write aligned tables, and below them what the model counts."""
    tables = [f"{comparison.title}\n{align(comparison.rows())}\n" for comparison in comparisons]
    return "\n".join([*tables, notes(comparisons, latency_us=latency_us)])


def notes(comparisons: Sequence[Comparison], *, latency_us: float) -> str:
    """Say what the model counts and, where a paper measured too, why its figures differ."""
    measured = any(comparison.measured_ratios for comparison in comparisons)
    return _MODEL.format(latency=f"{latency_us:g}") + (_PAPER if measured else "")
