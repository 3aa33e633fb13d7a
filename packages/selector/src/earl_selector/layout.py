"""Which rank holds which shard, for engines of one tensor-parallel degree side by side."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelLayout:
    """Engines of `tp` consecutive ranks, `num_ranks` / `tp` of them, each a copy of the whole.

    Ranks take their shards in an order that nests the degrees: a rank that goes up from a degree of
    the chain c_1 | c_2 | ... | tp to another keeps a part of the shard it holds, so nothing moves.
    With digits r mod tp = x_1 + c_1 x_2 + c_2 x_3 + ... the shard is the number whose digits are
    read in the other direction, s = (...(x_1 c_2/c_1 + x_2) c_3/c_2 + x_3)...: bit reversal where
    each degree doubles (Cooley and Tukey 1965, Math. Comput. 19(90), for mixed radices).

    Example:
        >>> layout = ParallelLayout(num_ranks=8, tp=8, degrees=(4, 8))
        >>> layout.ranks_of(0)  # rank 0 holds the first half of its quarter, rank 4 the second
        (0, 4, 1, 5, 2, 6, 3, 7)
    """

    num_ranks: int
    tp: int
    degrees: tuple[int, ...] = ()
    """The degrees at which the ranks may run, in any order. Shards are nested along the longest
    chain of them in which each divides the next; without any, rank r holds shard r mod tp."""

    def __post_init__(self) -> None:
        if min(self.num_ranks, self.tp, *self.degrees) < 1:
            raise ValueError(
                "num_ranks, tp and degrees must be >= 1, got "
                f"{self.num_ranks}, {self.tp} and {self.degrees}"
            )
        if self.num_ranks % self.tp != 0:
            raise ValueError(f"tp {self.tp} does not divide num_ranks {self.num_ranks}")

    @property
    def dp(self) -> int:
        """Return how many engines there are."""
        return self.num_ranks // self.tp

    def engine_of(self, rank: int) -> int:
        """Return the engine to which a rank belongs."""
        return rank // self.tp

    def shard_of(self, rank: int) -> int:
        """Return which of `tp` equal shards a rank holds."""
        place = rank % self.tp
        shard, finer = 0, 1
        nested = [each for each in find_longest_chain(self.degrees) if self.tp % each == 0]
        for degree in (*nested, self.tp):
            radix = degree // finer
            shard = shard * radix + place // finer % radix
            finer = degree
        return shard

    def ranks_of(self, engine: int) -> tuple[int, ...]:
        """Return the ranks of an engine in the order of their shards."""
        first = engine * self.tp
        return tuple(sorted(range(first, first + self.tp), key=self.shard_of))

    def interval(self, size: int, rank: int) -> tuple[int, int]:
        """Return start and end of what a rank holds of a dimension.

        Raises:
            ValueError: If `tp` does not divide the size.
        """
        if size % self.tp != 0:
            raise ValueError(f"tp {self.tp} does not divide a sharded size of {size}")
        width = size // self.tp
        start = self.shard_of(rank) * width
        return start, start + width


def find_longest_chain(degrees: tuple[int, ...]) -> tuple[int, ...]:
    """Return the most degrees in which each divides the next, of equals the one that ends first."""
    chains: dict[int, tuple[int, ...]] = {}
    for degree in sorted(set(degrees)):
        shorter = [chain for last, chain in chains.items() if degree % last == 0]
        chains[degree] = (*max(shorter, key=len, default=()), degree)
    return max(chains.values(), key=len, default=())
