"""Which rank sends which rows to which rank: a frozen value made without a process group."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from earl_dispatch.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One message: rows that one rank sends to another, ascending."""

    source_rank: int
    target_rank: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPlan:
    """All messages that turn one layout into another.

    Two ranks exchange at most one message in each direction. Rows that a rank holds and also
    needs stay where they are and are in no message.
    """

    source: Layout
    target: Layout
    row_bytes: tuple[int, ...]
    """Bytes of each row on the wire."""
    transfers: tuple[Transfer, ...]
    """Messages in order of (source_rank, target_rank), none from a rank to itself."""

    @property
    def num_ranks(self) -> int:
        """Ranks that take part: both layouts are within `range(num_ranks)`."""
        return max(self.source.num_ranks, self.target.num_ranks)

    @property
    def messages(self) -> int:
        """Number of messages between different ranks."""
        return len(self.transfers)

    @property
    def bytes_moved(self) -> int:
        """Bytes of all messages together."""
        return sum(self.bytes_of(transfer) for transfer in self.transfers)

    @property
    def bytes_lower_bound(self) -> int:
        """Bytes that any scheme moves between ranks, computed from the layouts alone.

        A rank must receive what it needs and does not hold, whoever sends it (cut-set bound on
        each rank): sum over ranks r and rows i of s_i [r in target(i) and r not in source(i)].
        """
        num_missing = {
            (held, needed): len(set(self.target.groups[needed]) - set(self.source.groups[held]))
            for held, needed in set(zip(self.source.owners, self.target.owners, strict=True))
        }
        pairs = zip(self.source.owners, self.target.owners, self.row_bytes, strict=True)
        return sum(num_missing[held, needed] * num_bytes for held, needed, num_bytes in pairs)

    def bytes_of(self, transfer: Transfer) -> int:
        """Return the bytes of one message."""
        return sum(self.row_bytes[row] for row in transfer.rows)

    def bytes_sent(self, rank: int) -> int:
        """Return the bytes a rank sends."""
        return sum(self.bytes_of(t) for t in self.transfers if t.source_rank == rank)

    def bytes_received(self, rank: int) -> int:
        """Return the bytes a rank receives."""
        return sum(self.bytes_of(t) for t in self.transfers if t.target_rank == rank)

    def kept_rows(self, rank: int) -> tuple[int, ...]:
        """Return the rows that stay on a rank, ascending."""
        held = set(self.source.rows_of(rank))
        return tuple(row for row in self.target.rows_of(rank) if row in held)


def plan_transfer(source: Layout, target: Layout, *, row_bytes: Sequence[int]) -> TransferPlan:
    """Plan the fewest bytes that turn `source` into `target`.

    Every rank receives exactly the rows it needs and does not hold, each once, so
    `bytes_moved == bytes_lower_bound`. What one group owes to one rank is one message; where the
    group has replicas, its messages go, from the largest to the smallest, each to the replica
    that has the least to send so far (lower position first). The plan is a function of the
    arguments alone: every process makes the same one.

    Args:
        source: Where the rows are.
        target: Where the rows are needed.
        row_bytes: Bytes of each row, as `bytes_per_row` gives them.

    Raises:
        ValueError: If the numbers of rows differ or a row has a negative size.
    """
    if not source.num_rows == target.num_rows == len(row_bytes):
        raise ValueError(
            f"source, target and row_bytes cover the same rows, got {source.num_rows}, "
            f"{target.num_rows} and {len(row_bytes)}"
        )
    if row_bytes and min(row_bytes) < 0:
        raise ValueError(f"row_bytes must be >= 0, got {min(row_bytes)}")
    debts = _debts(source, target)
    transfers = [
        transfer
        for group, debt in zip(source.groups, debts, strict=True)
        for transfer in _share_out(group, debt, row_bytes)
    ]
    return TransferPlan(
        source=source,
        target=target,
        row_bytes=tuple(row_bytes),
        transfers=tuple(sorted(transfers, key=lambda t: (t.source_rank, t.target_rank))),
    )


def _debts(source: Layout, target: Layout) -> list[dict[int, tuple[int, ...]]]:
    """Return for each source group what it owes: rank that lacks the rows -> rows."""
    rows_between = defaultdict[tuple[int, int], list[int]](list)
    for row, pair in enumerate(zip(source.owners, target.owners, strict=True)):
        rows_between[pair].append(row)
    debts: list[dict[int, tuple[int, ...]]] = [{} for _ in source.groups]
    for (held, needed), rows in rows_between.items():
        shared = tuple(rows)
        for rank in target.groups[needed]:
            if rank not in source.groups[held]:
                debts[held][rank] = shared
    return debts


def _share_out(
    group: tuple[int, ...], debt: dict[int, tuple[int, ...]], row_bytes: Sequence[int]
) -> list[Transfer]:
    """Choose for each message the replica that sends it."""
    num_bytes = {rank: sum(row_bytes[row] for row in rows) for rank, rows in debt.items()}
    sent_bytes = dict.fromkeys(group, 0)
    transfers: list[Transfer] = []
    for target_rank in sorted(debt, key=lambda rank: (-num_bytes[rank], rank)):
        sender = min(group, key=sent_bytes.__getitem__)
        sent_bytes[sender] += num_bytes[target_rank]
        transfers.append(
            Transfer(source_rank=sender, target_rank=target_rank, rows=debt[target_rank])
        )
    return transfers
