"""Which rank runs on which host."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Hosts of ranks: what stays on a host does not cross the network.

    Example:
        >>> Hosts.equal(num_ranks=4, ranks_per_host=2).of
        (0, 0, 1, 1)
    """

    of: tuple[int, ...]
    """Rank -> number of its host."""

    def __post_init__(self) -> None:
        if not self.of or min(self.of) < 0:
            raise ValueError(f"every rank needs a host numbered from 0, got {self.of}")

    @classmethod
    def equal(cls, *, num_ranks: int, ranks_per_host: int) -> "Hosts":
        """Put consecutive ranks on hosts of equal size.

        Raises:
            ValueError: If a number is below 1.
        """
        if num_ranks < 1 or ranks_per_host < 1:
            raise ValueError(
                f"num_ranks and ranks_per_host must be >= 1, got {num_ranks} and {ranks_per_host}"
            )
        return cls(of=tuple(rank // ranks_per_host for rank in range(num_ranks)))

    @classmethod
    def apart(cls, num_ranks: int) -> "Hosts":
        """Give every rank a host of its own."""
        return cls.equal(num_ranks=num_ranks, ranks_per_host=1)

    @property
    def num_hosts(self) -> int:
        """One more than the highest number of a host."""
        return 1 + max(self.of)

    def hosts_of(self, ranks: Sequence[int]) -> frozenset[int]:
        """Return the hosts that these ranks run on."""
        return frozenset(self.of[rank] for rank in ranks)
