"""Dealing sequences of different lengths into micro-batches that are computed without padding.

A plan is a list of bins, each the rows that one micro-batch computes. Every row is in one bin, no
bin holds more tokens than the capacity, and rows of a bin stand longest first, so that those of one
length are neighbours.
"""

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

Bins = list[list[int]]


@runtime_checkable
class PackingFunction(Protocol):
    """A planner."""

    def __call__(
        self,
        lengths: Sequence[int],
        *,
        capacity_tokens: int,
        min_bins: int = 0,
        bins_divisor: int = 1,
    ) -> Bins:
        """Deal rows into bins.

        Args:
            lengths: Tokens of each row.
            capacity_tokens: Most tokens of a bin.
            min_bins: Fewest bins; where there are fewer rows, some stay empty.
            bins_divisor: The number of bins is a multiple of it.

        Raises:
            ValueError: If a row alone is over the capacity.
        """
        ...


def pack_fewest_first(
    lengths: Sequence[int], *, capacity_tokens: int, min_bins: int = 0, bins_divisor: int = 1
) -> Bins:
    """Deal rows, longest first, each to the bin with the fewest rows of those that it fits.

    The dynamic batching of AReaL (Fu et al., arXiv:2505.24298, algorithm 1): a bin is opened while
    there are fewer than `min_bins`, and for a row that fits none. The arguments are those of
    `PackingFunction`.
    """
    deal = partial(_deal, _fewest_rows, lengths, capacity_tokens)
    return _plan(deal, lengths, capacity_tokens, min_bins, bins_divisor)


def pack_first_fit(
    lengths: Sequence[int], *, capacity_tokens: int, min_bins: int = 0, bins_divisor: int = 1
) -> Bins:
    """Deal rows, longest first, each to the first bin that it fits.

    First-fit decreasing needs at most 11/9 of the fewest possible bins and 6/9 of one (Dosa, 2007,
    "The tight bound of first fit decreasing bin-packing algorithm"). The arguments are those of
    `PackingFunction`.
    """
    deal = partial(_deal, _first, lengths, capacity_tokens)
    return _plan(deal, lengths, capacity_tokens, min_bins, bins_divisor)


def pack_karmarkar_karp(
    lengths: Sequence[int], *, capacity_tokens: int, min_bins: int = 0, bins_divisor: int = 1
) -> Bins:
    """Balance the tokens of bins, as few of them as that way stay within the capacity.

    The largest differencing method (Karmarkar and Karp, 1982, "The differencing method of set
    partitioning"). The arguments are those of `PackingFunction`.
    """
    deal = partial(_balance, lengths, capacity_tokens)
    return _plan(deal, lengths, capacity_tokens, min_bins, bins_divisor)


PACKINGS: dict[str, PackingFunction] = {
    "fewest-first": pack_fewest_first,
    "first-fit": pack_first_fit,
    "karmarkar-karp": pack_karmarkar_karp,
}


def _plan(
    deal: Callable[[int], Bins],
    lengths: Sequence[int],
    capacity_tokens: int,
    num_bins: int,
    bins_divisor: int,
) -> Bins:
    """Ask for more bins until their number is a multiple of the divisor."""
    longest = max(lengths, default=0)
    if longest > capacity_tokens:
        raise ValueError(
            f"a sequence of {longest} tokens does not fit a micro-batch of {capacity_tokens} tokens"
        )
    while True:
        bins = deal(num_bins)
        bins += [[] for _ in range(num_bins - len(bins))]
        num_bins = -(-len(bins) // bins_divisor) * bins_divisor
        if num_bins == len(bins):
            return [_longest_first(rows, lengths) for rows in bins]


def _longest_first(rows: Sequence[int], lengths: Sequence[int]) -> list[int]:
    return sorted(rows, key=lambda row: (-lengths[row], row))


def _fewest_rows(fitting: Sequence[int], bins: Bins) -> int:
    return min(fitting, key=lambda place: len(bins[place]))


def _first(fitting: Sequence[int], bins: Bins) -> int:
    del bins
    return fitting[0]


def _deal(
    choose: Callable[[Sequence[int], Bins], int],
    lengths: Sequence[int],
    capacity_tokens: int,
    min_bins: int,
) -> Bins:
    bins: Bins = []
    loads: list[int] = []
    for row in _longest_first(range(len(lengths)), lengths):
        room = capacity_tokens - lengths[row]
        fitting = [place for place, load in enumerate(loads) if load <= room]
        if len(bins) < min_bins or not fitting:
            bins.append([row])
            loads.append(lengths[row])
        else:
            place = choose(fitting, bins)
            bins[place].append(row)
            loads[place] += lengths[row]
    return bins


def _balance(lengths: Sequence[int], capacity_tokens: int, min_bins: int) -> Bins:
    num_bins = max(min_bins, -(-sum(lengths) // capacity_tokens), min(1, len(lengths)))
    while True:
        bins = _difference(lengths, num_bins)
        if all(sum(lengths[row] for row in rows) <= capacity_tokens for rows in bins):
            return bins
        num_bins += 1


def _difference(lengths: Sequence[int], num_bins: int) -> Bins:
    """Join the two most uneven divisions, large bins to small ones, until one is left."""
    # A division is its bins as (tokens, rows), largest first. Each row begins as one.
    empty: list[tuple[int, list[int]]] = [(0, [])] * (num_bins - 1)
    heap = [(-length, row, [(length, [row]), *empty]) for row, length in enumerate(lengths)]
    heapq.heapify(heap)
    while len(heap) > 1:
        _, number, first = heapq.heappop(heap)
        pairs = zip(first, reversed(heap[0][2]), strict=True)
        joined = [(tokens + more, rows + others) for (tokens, rows), (more, others) in pairs]
        joined.sort(key=lambda part: -part[0])
        heapq.heapreplace(heap, (joined[-1][0] - joined[0][0], number, joined))
    return [rows for _, _, division in heap for _, rows in division]
