"""What the EARL paper reports of its dispatcher (arXiv:2510.05943), replayed without fitting."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from earl_dispatch.comparison import Comparison
from earl_dispatch.network import Network
from earl_dispatch.simulator import Scenario, Simulated, simulate

_MIB = 2**20

FIGURE_4_GBPS: Final = 200
"""Rate of a host's link in the paper's testbed, in 10^9 bits per second."""
TABLE_1_GBPS: Final = (25, 200)
"""The rate that the paper gives for training on 1,024 GPUs, and that of its testbed."""

FIGURE_4: Final[Mapping[str, tuple[int, float]]] = MappingProxyType({
    "8K": (46, 9.7),
    "16K": (93, 11.0),
    "32K": (187, 11.2),
})
"""Context -> (MiB of each worker, times that dispatch became faster): section 3.3 and figure 4,
reference-model log-probs on 16 hosts."""

TABLE_1_MIB: Final[Mapping[str, int]] = MappingProxyType({
    "1K": 15_625,
    "2K": 31_250,
    "4K": 62_500,
    "8K": 125_000,
    "16K": 250_000,
    "32K": 500_000,
})
"""Context -> MiB of an intermediate batch on 1,024 GPUs: table 1."""


def figure_4(*, gbps: float | int = FIGURE_4_GBPS, latency_s: float | int = 0.0) -> Comparison:
    """Replay figure 4 with all 128 GPUs as workers, 8 on each of 16 hosts.

    Args:
        gbps: Rate of a host's link in 10^9 bits per second.
        latency_s: Time of a message besides its bytes.
    """
    network = Network.gbps(gbps, latency_s=latency_s)
    return Comparison(
        title=f"EARL figure 4: 16 hosts x 8 ranks at {gbps:g} Gbps",
        simulated=tuple(
            _simulate(context, 16, 8, mib * 16 * 8, network)
            for context, (mib, _) in FIGURE_4.items()
        ),
        measured_ratios=tuple(ratio for _, ratio in FIGURE_4.values()),
    )


def table_1(*, gbps: float | int, latency_s: float | int = 0.0) -> Comparison:
    """Time table 1's batches on 128 hosts with 8 ranks on each.

    Args:
        gbps: Rate of a host's link in 10^9 bits per second.
        latency_s: Time of a message besides its bytes.
    """
    network = Network.gbps(gbps, latency_s=latency_s)
    return Comparison(
        title=f"EARL table 1: 128 hosts (1,024 GPUs) at {gbps:g} Gbps",
        simulated=tuple(
            _simulate(context, 128, 8, mib, network) for context, mib in TABLE_1_MIB.items()
        ),
    )


def _simulate(
    context: str, num_hosts: int, ranks_per_host: int, total_mib: int, network: Network
) -> Simulated:
    return simulate(
        Scenario(
            name=context,
            num_hosts=num_hosts,
            ranks_per_host=ranks_per_host,
            total_bytes=total_mib * _MIB,
            network=network,
        )
    )
