"""Which rank sends which tokens to which rank: a frozen value made without a process group."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from earl_dispatch.bounds import missing_bytes
from earl_dispatch.hosts import Hosts
from earl_dispatch.layout import Layout, chunk_bounds, overlap
from earl_dispatch.sizes import RowSizes


class Transfer(NamedTuple):
    """What one rank sends to another: of each row the tokens that two chunks have in common."""

    source_rank: int
    target_rank: int
    rows: tuple[int, ...]
    """Ascending."""
    source_chunk: int = 0
    """Chunk of the source layout that the tokens are from."""
    target_chunk: int = 0
    """Chunk of the target layout that the tokens are for."""
    with_values: bool = True
    """Whether the rows' own and their turns' values go along."""


@dataclass(frozen=True, kw_only=True)
class TransferPlan:
    """All messages that turn one layout into another, in rounds.

    A round is done when all its messages have arrived. In the first, every host gets what it
    lacks; in the second, ranks pass on to their neighbours on the host what these lack too. Two
    ranks exchange at most one message a round in each direction. What a rank holds and also needs
    stays where it is.
    """

    source: Layout
    target: Layout
    sizes: RowSizes
    hosts: Hosts
    rounds: tuple[tuple[Transfer, ...], ...]
    """Transfers of each round in order of (source_rank, target_rank), none to the rank itself."""

    def __str__(self) -> str:
        from earl_dispatch.description import describe_plan  # it imports this module

        return describe_plan(self)

    @property
    def num_ranks(self) -> int:
        """Ranks that take part: both layouts are within `range(num_ranks)`."""
        return max(self.source.num_ranks, self.target.num_ranks)

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """The transfers of all rounds."""
        return tuple(transfer for transfers in self.rounds for transfer in transfers)

    @property
    def messages(self) -> int:
        """Number of messages between different ranks."""
        return sum(
            len({(t.source_rank, t.target_rank) for t in transfers}) for transfers in self.rounds
        )

    @property
    def bytes_moved(self) -> int:
        """Bytes of all messages together."""
        return sum(self._sent_bytes.values())

    @property
    def bytes_lower_bound(self) -> int:
        """Bytes that any scheme moves between ranks, computed from the layouts alone.

        A rank must receive what it needs and does not hold, whoever sends it (cut-set bound on
        each rank): sum over ranks r and rows i of s_i [r in target(i) and r not in source(i)],
        taken chunk by chunk.
        """
        apart = Hosts.apart(self.num_ranks)
        return sum(missing_bytes(self.source, self.target, self.sizes, apart).values())

    @property
    def bytes_between_hosts(self) -> int:
        """Bytes of the messages that cross from one host to another."""
        return sum(n for (source, target), n in self.link_bytes.items() if source != target)

    @property
    def bytes_between_hosts_lower_bound(self) -> int:
        """Bytes that any scheme moves between hosts: the same bound with hosts in place of ranks.

        However many replicas a host has, what it lacks enters it once.
        """
        return sum(missing_bytes(self.source, self.target, self.sizes, self.hosts).values())

    @cached_property
    def link_bytes(self) -> Mapping[tuple[int, int], int]:
        """Bytes from each host to each, (source host, target host) -> bytes."""
        loads = defaultdict[tuple[int, int], int](int)
        for (source, target), num_bytes in self._sent_bytes.items():
            loads[self.hosts.of[source], self.hosts.of[target]] += num_bytes
        return dict(loads)

    def bytes_of(self, transfer: Transfer) -> int:
        """Return the bytes of one transfer."""
        sizes, rows = self.sizes, transfer.rows
        if self.source.num_chunks == self.target.num_chunks == 1:
            num_bytes = sum(sizes.piece_bytes(sizes.lengths[row]) for row in rows)
        else:
            chunks = transfer.source_chunk, transfer.target_chunk
            bounds = [shared_bounds(self, row, *chunks) for row in rows]
            num_bytes = sum(sizes.piece_bytes(stop - start) for start, stop in bounds)
        if transfer.with_values:
            num_bytes += sum(sizes.values_bytes(row) for row in rows)
        return num_bytes

    def bytes_sent(self, rank: int) -> int:
        """Return the bytes a rank sends."""
        return sum(n for (source, _), n in self._sent_bytes.items() if source == rank)

    def bytes_received(self, rank: int) -> int:
        """Return the bytes a rank receives."""
        return sum(n for (_, target), n in self._sent_bytes.items() if target == rank)

    @cached_property
    def _sent_bytes(self) -> Mapping[tuple[int, int], int]:
        """Bytes from each rank to each, over all rounds."""
        loads = defaultdict[tuple[int, int], int](int)
        # Replicas get the same rows: the sum over them is made once.
        known: dict[tuple[int, int, int, bool], int] = {}
        for transfer in self.transfers:
            key = (
                id(transfer.rows),
                transfer.source_chunk,
                transfer.target_chunk,
                transfer.with_values,
            )
            if key not in known:
                known[key] = self.bytes_of(transfer)
            loads[transfer.source_rank, transfer.target_rank] += known[key]
        return dict(loads)


def shared_bounds(
    plan: TransferPlan, row: int, source_chunk: int, target_chunk: int
) -> tuple[int, int]:
    """Return the tokens of a row that two chunks share: first, and one past the last."""
    length = plan.sizes.lengths[row]
    return overlap(
        chunk_bounds(length, source_chunk, plan.source.num_chunks),
        chunk_bounds(length, target_chunk, plan.target.num_chunks),
    )


def plan_transfer(
    source: Layout, target: Layout, *, sizes: RowSizes, hosts: Hosts | None = None
) -> TransferPlan:
    """Plan the fewest bytes between ranks, and between hosts, that turn `source` into `target`.

    Every rank receives exactly the tokens that it needs and does not hold, each once, and every
    host exactly those that none of its ranks holds. A host's share of a replica group is sent to
    one of its ranks, which passes it on. Where several ranks could send, the one with the least to
    send so far does, from the largest message to the smallest, after all that only one could. The
    plan is a function of the arguments alone: every process makes the same one.

    Args:
        source: Where the rows are.
        target: Where the rows are needed.
        sizes: Of the rows.
        hosts: Of the ranks; each on a host of its own by default.

    Raises:
        ValueError: If the numbers of rows differ or a rank has no host.
    """
    if not source.num_rows == target.num_rows == sizes.num_rows:
        raise ValueError(
            f"source, target and sizes cover the same rows, got {source.num_rows}, "
            f"{target.num_rows} and {sizes.num_rows}"
        )
    num_ranks = max(source.num_ranks, target.num_ranks)
    hosts = hosts or Hosts.apart(num_ranks)
    if len(hosts.of) < num_ranks:
        raise ValueError(f"the layouts need hosts of {num_ranks} ranks, got {len(hosts.of)}")
    plan = TransferPlan(source=source, target=target, sizes=sizes, hosts=hosts, rounds=())
    first: list[Transfer] = []
    second: list[Transfer] = []
    choices: list[tuple[int, Transfer, tuple[int, ...]]] = []
    # There may be as many demands as rows, so none of them is kept: what Python keeps, its
    # collector looks through again and again.
    for offered, senders, neighbours in _demands(plan):
        if len(senders) == 1:
            first.append(offered)
        else:
            choices.append((plan.bytes_of(offered), offered, senders))
        for rank, with_values in neighbours:
            second.append(Transfer(offered.target_rank, rank, *offered[2:5], with_values))
    if choices:
        first.extend(_choose_senders(plan, first, choices))
    rounds = tuple(tuple(sorted(transfers)) for transfers in (first, second) if transfers)
    return replace(plan, rounds=rounds)


def _choose_senders(
    plan: TransferPlan,
    settled: Sequence[Transfer],
    choices: Sequence[tuple[int, Transfer, tuple[int, ...]]],
) -> list[Transfer]:
    sent = [0] * plan.num_ranks
    for transfer in settled:
        sent[transfer.source_rank] += plan.bytes_of(transfer)
    chosen: list[Transfer] = []
    for num_bytes, offered, senders in sorted(choices, key=lambda choice: (-choice[0], choice[1])):
        sender = min(senders, key=sent.__getitem__)
        sent[sender] += num_bytes
        chosen.append(offered._replace(source_rank=sender))
    return chosen


# What a rank lacks: the transfer, from any of the ranks that could send it, these ranks, and those
# of the receiver's host that lack the same tokens, each with whether it lacks the values.
_Demand = tuple[Transfer, tuple[int, ...], Sequence[tuple[int, bool]]]


def _demands(plan: TransferPlan) -> Iterator[_Demand]:
    source, target = plan.source, plan.target
    chunk_pairs = [
        ((source_chunk, target_chunk), place == 0)
        for target_chunk in range(target.num_chunks)
        for place, source_chunk in enumerate(
            _overlapping(target_chunk, target.num_chunks, source.num_chunks)
        )
    ]
    replicas_held, replicas_needed = _replicas(source), _replicas(target)
    num_groups = len(target.groups)
    # A pair of groups as one number, which sorts faster.
    pairs = [h * num_groups + n for h, n in zip(source.owners, target.owners, strict=True)]
    by_pair = sorted(range(len(pairs)), key=pairs.__getitem__)
    for pair, rows in groupby(by_pair, pairs.__getitem__):
        held, needed = divmod(pair, num_groups)
        group, shared = source.groups[held], tuple(rows)
        for chunks, is_first in chunk_pairs:
            holders = replicas_held[held][chunks[0]]
            # The values of its rows a rank gets once, with the first chunk.
            lacking = [
                (rank, is_first and rank not in group)
                for rank in replicas_needed[needed][chunks[1]]
                if rank not in holders
            ]
            if not lacking:
                continue
            offered = Transfer(holders[0], lacking[0][0], shared, *chunks, lacking[0][1])
            if len(lacking) == len(holders) == 1:
                # By far the most where nothing is replicated.
                yield offered, holders, ()
            else:
                yield from _demands_by_host(plan, offered, lacking, holders)


def _replicas(layout: Layout) -> list[list[tuple[int, ...]]]:
    """Return the ranks of every chunk of every group."""
    return [
        [layout.replicas(group, chunk) for chunk in range(layout.num_chunks)]
        for group in range(len(layout.groups))
    ]


def _demands_by_host(
    plan: TransferPlan,
    wanted: Transfer,
    lacking: Sequence[tuple[int, bool]],
    holders: tuple[int, ...],
) -> Iterator[_Demand]:
    host = plan.hosts.of
    by_host: dict[int, list[tuple[int, bool]]] = {}
    # Who lacks the values comes first, so that it can pass them on.
    for rank, with_values in sorted(lacking, key=itemgetter(1), reverse=True):
        by_host.setdefault(host[rank], []).append((rank, with_values))
    for here, ranks in by_host.items():
        local = tuple(rank for rank in holders if host[rank] == here)
        senders = local or holders
        # Next to a holder nothing has to be passed on.
        batches = [[rank] for rank in ranks] if local else [ranks]
        for (receiver, with_values), *neighbours in batches:
            offered = Transfer(senders[0], receiver, *wanted[2:5], with_values)
            yield offered, senders, neighbours


def _overlapping(chunk: int, num_chunks: int, num_others: int) -> list[int]:
    """Return which of `num_others` equal parts of an interval a part of another cut touches."""
    first = chunk * num_others // num_chunks
    last = -(-(chunk + 1) * num_others // num_chunks)
    return list(range(first, last))
