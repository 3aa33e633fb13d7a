"""What the models know of a device."""

from dataclasses import dataclass
from math import log2
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One accelerator, or one CPU process with the memory it may use."""

    name: str
    memory_bytes: int
    """What a process can see of it, which is less than the number on the box."""
    memory_bytes_per_s: float | int
    """Peak bandwidth of that memory."""
    flops_per_s: float | int
    """Peak of dense 16-bit matrix products, without sparsity."""
    link_bytes_per_s: float | int
    """What it sends at most to its neighbours in one direction."""
    link_latency_s: float | int
    """Of one message to a neighbour."""

    def __post_init__(self) -> None:
        if self.memory_bytes < 1:
            raise ValueError(f"memory_bytes of a device must be >= 1, got {self.memory_bytes}")
        rates = (self.memory_bytes_per_s, self.flops_per_s, self.link_bytes_per_s)
        if min(rates) <= 0 or self.link_latency_s < 0:
            raise ValueError(
                "a device's rates must be positive and its latency not negative, got "
                f"{rates} and {self.link_latency_s}"
            )

    def all_reduce_s(self, num_ranks: int, num_bytes: int) -> float:
        """Return the seconds in which ranks sum `num_bytes` that each of them holds.

        2 log2(t) a + 2 (t - 1) / t x bytes / b, with latency a and bandwidth b of a link. Source:
        Thakur et al. 2005, "Optimization of Collective Communication Operations in MPICH", section
        4.5: reduce-scatter by halving, all-gather by doubling.
        """
        return (
            2 * log2(num_ranks) * self.link_latency_s
            + 2 * (num_ranks - 1) / num_ranks * num_bytes / self.link_bytes_per_s
        )

    @classmethod
    def cpu(cls, memory_bytes: int) -> "DeviceSpec":
        """Describe a CPU process that is allowed `memory_bytes` of memory.

        The rates are orders of magnitude of one present server core in float32 and of TCP between
        processes of one machine; measure where they matter.
        """
        return cls(
            name="cpu",
            memory_bytes=memory_bytes,
            memory_bytes_per_s=1e10,
            flops_per_s=5e10,
            link_bytes_per_s=1e9,
            link_latency_s=1e-4,
        )
