"""What has to be moved by whatever scheme, from the layouts alone."""

from collections import defaultdict

from earl_dispatch.hosts import Hosts
from earl_dispatch.layout import Layout, chunk_bounds, overlap
from earl_dispatch.sizes import RowSizes

_Chunks = dict[int, set[int]]
"""Host -> chunks that its ranks hold, or need, of the rows of a group."""


def missing_bytes(source: Layout, target: Layout, sizes: RowSizes, hosts: Hosts) -> dict[int, int]:
    """Return for each host the bytes that one of its ranks needs and none of them holds.

    Whoever sends them, they have to enter the host (a cut around it). With every rank on a host of
    its own these are the bytes that each rank has to receive.
    """
    pairs = list(zip(source.owners, target.owners, strict=True))
    present, wanted = _chunks_by_host(source, hosts), _chunks_by_host(target, hosts)
    needs = {pair: _needs_by_host(present[pair[0]], wanted[pair[1]]) for pair in set(pairs)}
    missing = defaultdict[int, int](int)
    for row, pair in enumerate(pairs):
        length = sizes.lengths[row]
        for host, needed, held in needs[pair]:
            num_tokens = _num_tokens(target, length, needed)
            num_tokens -= _num_shared_tokens(source, target, length, held or [], needed)
            missing[host] += sizes.piece_bytes(num_tokens)
            if held is None:
                missing[host] += sizes.values_bytes(row)
    return dict(missing)


def irreplaceable_bytes(
    source: Layout, target: Layout, sizes: RowSizes, hosts: Hosts
) -> dict[int, int]:
    """Return for each host the bytes that it alone holds and that ranks of other hosts need.

    However they are passed on, they have to leave the host once (the same cut, the other way).
    """
    pairs = list(zip(source.owners, target.owners, strict=True))
    present, wanted = _chunks_by_host(source, hosts), _chunks_by_host(target, hosts)
    needs = {pair: _needs_from_host(present[pair[0]], wanted[pair[1]]) for pair in set(pairs)}
    leaving = defaultdict[int, int](int)
    for row, pair in enumerate(pairs):
        for host, held, needed, with_values in needs[pair]:
            num_tokens = _num_shared_tokens(source, target, sizes.lengths[row], held, needed)
            leaving[host] += sizes.piece_bytes(num_tokens)
            if with_values:
                leaving[host] += sizes.values_bytes(row)
    return dict(leaving)


def _needs_by_host(
    present: _Chunks, wanted: _Chunks
) -> list[tuple[int, list[int], list[int] | None]]:
    """Return each host that needs rows, which target chunks, and which source chunks it has."""
    return [
        (host, sorted(chunks), sorted(present[host]) if host in present else None)
        for host, chunks in wanted.items()
    ]


def _needs_from_host(
    present: _Chunks, wanted: _Chunks
) -> list[tuple[int, list[int], list[int], bool]]:
    """Return each host that alone holds source chunks, these, and the target chunks of others.

    The last is whether it alone holds the rows' values, which are held with any chunk.
    """
    needs: list[tuple[int, list[int], list[int], bool]] = []
    for host in present:
        held, needed = present[host] - _elsewhere(present, host), _elsewhere(wanted, host)
        if held and needed:
            needs.append((host, sorted(held), sorted(needed), len(present) == 1))
    return needs


def _elsewhere(chunks: _Chunks, host: int) -> set[int]:
    return {chunk for other, theirs in chunks.items() if other != host for chunk in theirs}


def _chunks_by_host(layout: Layout, hosts: Hosts) -> list[_Chunks]:
    """Return for each group where its chunks are."""
    groups: list[_Chunks] = []
    for group in range(len(layout.groups)):
        chunks: _Chunks = {}
        for chunk in range(layout.num_chunks):
            for rank in layout.replicas(group, chunk):
                chunks.setdefault(hosts.of[rank], set()).add(chunk)
        groups.append(chunks)
    return groups


def _num_tokens(layout: Layout, length: int, chunks: list[int]) -> int:
    bounds = [chunk_bounds(length, chunk, layout.num_chunks) for chunk in chunks]
    return sum(stop - start for start, stop in bounds)


def _num_shared_tokens(
    source: Layout, target: Layout, length: int, held: list[int], wanted: list[int]
) -> int:
    """Return the tokens that are in one of these chunks of the source and in one of the target."""
    num_tokens = 0
    for source_chunk in held:
        holding = chunk_bounds(length, source_chunk, source.num_chunks)
        for chunk in wanted:
            start, stop = overlap(holding, chunk_bounds(length, chunk, target.num_chunks))
            num_tokens += stop - start
    return num_tokens
