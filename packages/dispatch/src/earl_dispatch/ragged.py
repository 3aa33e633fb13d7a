"""Copies of ragged pieces between flat tensors."""

from collections.abc import Sequence

import torch
from jaxtyping import Shaped
from torch import Tensor

from earl_dispatch.columns import spread

_LONG_RUN = 256
"""Elements from which on a copy of its own is cheaper than an index per element."""
_BLOCK = 1 << 18
"""Elements whose indices are in memory at one time."""


def copy_pieces(
    target: Shaped[Tensor, " target"],
    target_starts: Sequence[int],
    source: Shaped[Tensor, " source"],
    source_starts: Sequence[int],
    lengths: Sequence[int],
) -> None:
    """Copy source[s:s + n] to target[t:t + n] for every piece.

    Pieces that follow one another on both sides are copied as one. Beyond the two tensors it needs
    a constant amount of memory.

    Args:
        target: Written to.
        target_starts: First place of each piece, t.
        source: Read from, of the same dtype.
        source_starts: First place of each piece, s.
        lengths: Elements of each piece, n.
    """
    runs = join_runs(target_starts, source_starts, lengths)
    num_elements = sum(length for _, _, length in runs)
    if num_elements >= _LONG_RUN * len(runs):
        for to, start, length in runs:
            target[to : to + length].copy_(source[start : start + length])
    else:
        for block in _blocks(runs):
            counts = torch.tensor([length for _, _, length in block], device=target.device)
            places = torch.tensor([to for to, _, _ in block], device=target.device)
            starts = torch.tensor([start for _, start, _ in block], device=target.device)
            target.index_copy_(0, spread(places, counts), source[spread(starts, counts)])


Run = tuple[int, int, int]
"""(place in the target, place in the source, elements)."""


def join_runs(
    target_starts: Sequence[int], source_starts: Sequence[int], lengths: Sequence[int]
) -> list[Run]:
    """Make one run of pieces that follow one another on both sides; none of no elements."""
    runs: list[Run] = []
    for to, start, length in zip(target_starts, source_starts, lengths, strict=True):
        if not length:
            continue
        if runs and (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]) == (to, start):
            runs[-1] = (runs[-1][0], runs[-1][1], runs[-1][2] + length)
        else:
            runs.append((to, start, length))
    return runs


def _blocks(runs: Sequence[Run]) -> list[list[Run]]:
    blocks: list[list[Run]] = [[]]
    size = 0
    for run in runs:
        if blocks[-1] and size + run[2] > _BLOCK:
            blocks.append([])
            size = 0
        blocks[-1].append(run)
        size += run[2]
    return blocks
