"""Choosing which rank gets which row, so that few bytes cross the network."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from earl_dispatch.capacity import relieve_groups
from earl_dispatch.hosts import Hosts
from earl_dispatch.layout import Layout
from earl_dispatch.sizes import RowSizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A row map and what it costs between hosts."""

    layout: Layout
    bytes_between_hosts: int
    """Bytes that the map moves from host to host."""
    bytes_between_hosts_minimum: float
    """Bytes that any map moves that gives every host its share: sum over hosts n of
    max(0, S_n - C_n), with S_n the bytes the host holds and C_n its share."""


def place_rows(
    source: Layout,
    target: Layout,
    *,
    sizes: RowSizes,
    hosts: Hosts,
    max_tokens_per_group: int | None = None,
) -> Placement:
    """Choose the target map: balanced groups, and as few bytes between hosts as balance allows.

    Rows of a batch are exchangeable, so a host keeps what it has up to its share, the bytes of the
    batch times its part of the target's groups, and only its surplus leaves. That is the optimum of
    a transport problem with cost 0 at home and 1 elsewhere; the greedy choice below meets it up to
    one row per host, since rows are not divisible. Within a host the rows go, longest first, to the
    group with the fewest tokens (Graham 1969, SIAM J. Appl. Math. 17(2)). If a group then has more
    than `max_tokens_per_group`, rows are moved and swapped until none has, within a host where that
    works.

    Args:
        source: Where the rows are; a row counts as held by the host of its group's first rank.
        target: Groups and chunks to fill; its owners are not looked at.
        sizes: Of the rows.
        hosts: Of the ranks; each target group lies on one host.
        max_tokens_per_group: Most tokens that a group may get; None for no limit.

    Raises:
        ValueError: If `sizes` are not of the source's rows, a target group spans hosts, or the rows
            do not fit the limit. The message then names the smallest limit that they are made to
            fit here, and the larger of the longest row and an even share, below which none is met.
    """
    if sizes.num_rows != source.num_rows:
        raise ValueError(
            f"sizes are those of the source's {source.num_rows} rows, got {sizes.num_rows}"
        )
    homes = _homes_of_groups(target, hosts)
    row_bytes = sizes.all_row_bytes()
    host_of_group = [hosts.of[group[0]] for group in source.groups]
    host_of_row = [host_of_group[owner] for owner in source.owners]
    total = sum(row_bytes)
    shares = {host: total * len(groups) / len(target.groups) for host, groups in homes.items()}
    held = dict.fromkeys({*shares, *host_of_row}, 0)
    for row, num_bytes in enumerate(row_bytes):
        held[host_of_row[row]] += num_bytes
    surplus = {host: max(0.0, held[host] - shares.get(host, 0.0)) for host in held}
    leaving = _leaving(host_of_row, row_bytes, surplus, shares)
    new_hosts = _rehome(host_of_row, leaving, row_bytes, held, shares)
    owners = _fill_groups(new_hosts, homes, sizes.lengths)
    new_home = [hosts.of[group[0]] for group in target.groups]
    if max_tokens_per_group is not None:
        owners = relieve_groups(
            owners, sizes.lengths, host_of_group=new_home, limit=max_tokens_per_group
        )
        _require_room(owners, sizes.lengths, len(target.groups), max_tokens_per_group)
    places = zip(row_bytes, host_of_row, owners, strict=True)
    return Placement(
        layout=replace(target, owners=owners),
        bytes_between_hosts=sum(size for size, host, owner in places if host != new_home[owner]),
        bytes_between_hosts_minimum=sum(surplus.values()),
    )


def _homes_of_groups(target: Layout, hosts: Hosts) -> dict[int, list[int]]:
    """Return the groups of every host that has any."""
    homes: dict[int, list[int]] = {}
    for group, ranks in enumerate(target.groups):
        spanned = hosts.hosts_of(ranks)
        if len(spanned) > 1:
            raise ValueError(
                f"a group to fill lies on one host, group {group} is on hosts {sorted(spanned)}"
            )
        homes.setdefault(hosts.of[ranks[0]], []).append(group)
    return homes


def _leaving(
    host_of_row: Sequence[int],
    row_bytes: Sequence[int],
    surplus: dict[int, float],
    shares: dict[int, float],
) -> list[int]:
    """Choose rows that make up each host's surplus without exceeding it; all where no group is."""
    room = dict(surplus)
    rows: list[int] = []
    for row in sorted(range(len(row_bytes)), key=row_bytes.__getitem__, reverse=True):
        host = host_of_row[row]
        if host not in shares or row_bytes[row] <= room[host]:
            room[host] -= row_bytes[row]
            rows.append(row)
    return rows


def _rehome(
    host_of_row: Sequence[int],
    leaving: Sequence[int],
    row_bytes: Sequence[int],
    held: dict[int, int],
    shares: dict[int, float],
) -> list[int]:
    """Send the rows that leave, largest first, each to the host with the most room."""
    new_hosts = list(host_of_row)
    roomiest = [(held[host] - share, host) for host, share in sorted(shares.items())]
    heapq.heapify(roomiest)
    for row in leaving:
        over, host = heapq.heappop(roomiest)
        new_hosts[row] = host
        heapq.heappush(roomiest, (over + row_bytes[row], host))
    return new_hosts


def _fill_groups(
    host_of_row: Sequence[int], homes: dict[int, list[int]], lengths: Sequence[int]
) -> tuple[int, ...]:
    owners = [0] * len(host_of_row)
    emptiest = {host: [(0, group) for group in groups] for host, groups in homes.items()}
    for row in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        heap = emptiest[host_of_row[row]]
        num_tokens, group = heap[0]
        owners[row] = group
        heapq.heapreplace(heap, (num_tokens + lengths[row], group))
    return tuple(owners)


def _require_room(
    owners: Sequence[int], lengths: Sequence[int], num_groups: int, limit: int
) -> None:
    num_tokens = [0] * num_groups
    for owner, length in zip(owners, lengths, strict=True):
        num_tokens[owner] += length
    if max(num_tokens) > limit:
        floor = max(*lengths, -(-sum(lengths) // num_groups), 0)
        raise ValueError(
            f"max_tokens_per_group must be >= {max(num_tokens)} for these {len(lengths)} rows to "
            f"be fitted into {num_groups} groups (no map fits them below {floor}), got {limit}"
        )
