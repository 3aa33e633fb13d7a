"""What has to be moved by whatever scheme, from the layouts alone."""

from collections import defaultdict

from earl_dispatch.hosts import Hosts
from earl_dispatch.layout import Layout, chunk_bounds, overlap
from earl_dispatch.sizes import RowSizes


def missing_bytes(source: Layout, target: Layout, sizes: RowSizes, hosts: Hosts) -> dict[int, int]:
    """Return for each host the bytes that one of its ranks needs and none of them holds.

    Whoever sends them, they have to enter the host (a cut around it). With every rank on a host of
    its own these are the bytes that each rank has to receive.
    """
    pairs = list(zip(source.owners, target.owners, strict=True))
    needs = {pair: _needs_by_host(source, target, pair, hosts) for pair in set(pairs)}
    missing = defaultdict[int, int](int)
    for row, pair in enumerate(pairs):
        for host, wanted, held in needs[pair]:
            num_tokens = _missing_tokens(source, target, sizes.lengths[row], wanted, held or [])
            missing[host] += sizes.piece_bytes(num_tokens)
            if held is None:
                missing[host] += sizes.values_bytes(row)
    return dict(missing)


def _needs_by_host(
    source: Layout, target: Layout, pair: tuple[int, int], hosts: Hosts
) -> list[tuple[int, list[int], list[int] | None]]:
    """Return each host that needs rows, which target chunks, and which source chunks it has."""
    wanted = _chunks_by_host(target, pair[1], hosts)
    present = _chunks_by_host(source, pair[0], hosts)
    return [
        (host, sorted(chunks), sorted(present[host]) if host in present else None)
        for host, chunks in wanted.items()
    ]


def _chunks_by_host(layout: Layout, group: int, hosts: Hosts) -> dict[int, set[int]]:
    chunks: dict[int, set[int]] = {}
    for chunk in range(layout.num_chunks):
        for rank in layout.replicas(group, chunk):
            chunks.setdefault(hosts.of[rank], set()).add(chunk)
    return chunks


def _missing_tokens(
    source: Layout, target: Layout, length: int, wanted: list[int], held: list[int]
) -> int:
    num_tokens = 0
    for chunk in wanted:
        needed = chunk_bounds(length, chunk, target.num_chunks)
        num_tokens += needed[1] - needed[0]
        for source_chunk in held:
            start, stop = overlap(needed, chunk_bounds(length, source_chunk, source.num_chunks))
            num_tokens -= stop - start
    return num_tokens
