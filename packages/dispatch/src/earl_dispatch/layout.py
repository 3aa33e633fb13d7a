"""Which rank holds which rows, and on which ranks a row is replicated."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Rows over data-parallel groups, chunks of a row over the context-parallel ranks of its group.

    Every rank keeps its rows in ascending order of their global number, and of each row its chunk.

    Example:
        >>> layout = Layout.contiguous(num_rows=3, num_ranks=4, replicas_per_group=2)
        >>> layout.groups
        ((0, 1), (2, 3))
        >>> layout.rows_of(1), layout.rows_of(2)
        ((0, 1), (2,))
    """

    owners: tuple[int, ...]
    """Row -> index into `groups`."""
    groups: tuple[tuple[int, ...], ...]
    """Group -> its ranks: those that hold a copy of the first chunk of its rows (tensor-parallel
    replicas), then those of the second, and so on."""
    num_chunks: int = 1
    """Consecutive parts that the tokens of every row are cut into (context parallelism)."""

    def __post_init__(self) -> None:
        if self.num_chunks < 1:
            raise ValueError(f"num_chunks must be >= 1, got {self.num_chunks}")
        if not self.groups or not all(self.groups):
            raise ValueError(f"a layout needs groups of at least 1 rank, got {self.groups}")
        ranks = [rank for group in self.groups for rank in group]
        if min(ranks) < 0:
            raise ValueError(f"ranks must be >= 0, got {min(ranks)}")
        if len(set(ranks)) < len(ranks):
            twice = min(rank for rank in ranks if ranks.count(rank) > 1)
            raise ValueError(f"a rank belongs to one group, rank {twice} is named more than once")
        uneven = [group for group in self.groups if len(group) % self.num_chunks]
        if uneven:
            raise ValueError(
                f"num_chunks must divide the ranks of a group, got {self.num_chunks} chunks and "
                f"{len(uneven[0])} ranks"
            )
        outside = [owner for owner in self.owners if not 0 <= owner < len(self.groups)]
        if outside:
            raise ValueError(f"owners must be in range({len(self.groups)}), got {outside[0]}")

    @classmethod
    def contiguous(
        cls, *, num_rows: int, num_ranks: int, replicas_per_group: int = 1, num_chunks: int = 1
    ) -> "Layout":
        """Cut the rows into consecutive runs whose sizes differ by at most one.

        Args:
            num_rows: Rows of the batch.
            num_ranks: Ranks in all; consecutive ranks form a group.
            replicas_per_group: Ranks that hold the same tokens.
            num_chunks: Parts of each row, every one on ranks of its own.

        Raises:
            ValueError: If `num_rows` is negative or the ranks do not divide into groups.
        """
        if num_rows < 0:
            raise ValueError(f"num_rows must be >= 0, got {num_rows}")
        groups = consecutive_groups(num_ranks, replicas_per_group * num_chunks)
        size, num_longer = divmod(num_rows, len(groups))
        owners = [group for group in range(len(groups)) for _ in range(size + (group < num_longer))]
        return cls(owners=tuple(owners), groups=groups, num_chunks=num_chunks)

    @classmethod
    def balanced(
        cls,
        lengths: Sequence[int],
        *,
        num_ranks: int,
        max_rows: int | None = None,
        replicas_per_group: int = 1,
        num_chunks: int = 1,
    ) -> "Layout":
        """Spread rows so that the groups hold about equally many tokens.

        Longest processing time first: rows from the longest to the shortest, each to the group
        that holds the fewest tokens (Graham 1969, "Bounds on Multiprocessing Timing Anomalies",
        SIAM J. Appl. Math. 17(2)). Without `max_rows` the fullest of m groups holds at most
        4/3 - 1/(3m) times what it holds in the best map. Ties go to the lower row and group.

        Args:
            lengths: Tokens of each row.
            num_ranks: Ranks in all; consecutive ranks form a group.
            max_rows: Most rows a group may hold; None for no limit.
            replicas_per_group: Ranks that hold the same tokens.
            num_chunks: Parts of each row, every one on ranks of its own.

        Raises:
            ValueError: If `max_rows` cannot hold the rows (the smallest that can is named) or the
                ranks do not divide into groups.
        """
        groups = consecutive_groups(num_ranks, replicas_per_group * num_chunks)
        capacity = len(lengths) if max_rows is None else max_rows
        smallest = -(-len(lengths) // len(groups))
        if capacity < smallest:
            raise ValueError(
                f"{len(lengths)} rows on {len(groups)} groups need max_rows >= {smallest}, "
                f"got {capacity}"
            )
        owners = [0] * len(lengths)
        num_rows = [0] * len(groups)
        emptiest = [(0, group) for group in range(len(groups))]
        for row in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
            num_tokens, group = heapq.heappop(emptiest)
            owners[row] = group
            num_rows[group] += 1
            if num_rows[group] < capacity:
                heapq.heappush(emptiest, (num_tokens + lengths[row], group))
        return cls(owners=tuple(owners), groups=groups, num_chunks=num_chunks)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.owners)

    @property
    def num_ranks(self) -> int:
        """One more than the highest rank, so that all of them are in `range(num_ranks)`."""
        return 1 + max(max(group) for group in self.groups)

    @cached_property
    def rows_by_group(self) -> tuple[tuple[int, ...], ...]:
        """The rows of each group, ascending."""
        rows: list[list[int]] = [[] for _ in self.groups]
        for row, owner in enumerate(self.owners):
            rows[owner].append(row)
        return tuple(map(tuple, rows))

    def ranks_of(self, row: int) -> tuple[int, ...]:
        """Return the ranks that hold any part of a row, leader first."""
        return self.groups[self.owners[row]]

    def rows_of(self, rank: int) -> tuple[int, ...]:
        """Return the rows of which a rank holds a chunk, ascending; none if it is not in it."""
        group = self._group_of.get(rank)
        return () if group is None else self.rows_by_group[group]

    def replicas(self, group: int, chunk: int) -> tuple[int, ...]:
        """Return the ranks that hold this chunk of a group's rows."""
        size = len(self.groups[group]) // self.num_chunks
        return self.groups[group][chunk * size : (chunk + 1) * size]

    def chunk_of(self, rank: int) -> int:
        """Return which chunk of its rows a rank holds; 0 for a rank outside the layout."""
        if rank not in self._group_of:
            return 0
        group = self.groups[self._group_of[rank]]
        return group.index(rank) * self.num_chunks // len(group)

    @cached_property
    def _group_of(self) -> dict[int, int]:
        return {rank: number for number, group in enumerate(self.groups) for rank in group}


def chunk_bounds(length: int, chunk: int, num_chunks: int) -> tuple[int, int]:
    """Return the tokens of one of `num_chunks` parts of a row: first, and one past the last."""
    return chunk * length // num_chunks, (chunk + 1) * length // num_chunks


def overlap(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Return what two ranges of tokens have in common, maybe nothing: first, one past the last."""
    start = max(one[0], other[0])
    return start, max(start, min(one[1], other[1]))


def consecutive_groups(num_ranks: int, ranks_per_group: int) -> tuple[tuple[int, ...], ...]:
    """Cut ranks into consecutive groups.

    Raises:
        ValueError: If the ranks do not divide into groups.
    """
    if num_ranks < 1 or ranks_per_group < 1 or num_ranks % ranks_per_group:
        raise ValueError(
            "num_ranks must be a positive multiple of the ranks of a group, "
            f"got {num_ranks} and {ranks_per_group}"
        )
    return tuple(
        tuple(range(first, first + ranks_per_group))
        for first in range(0, num_ranks, ranks_per_group)
    )
