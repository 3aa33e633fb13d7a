"""Columns addressed by global row numbers."""

from collections.abc import Sequence

import torch

from earl_dispatch.columns import Columns


def pick(columns: Columns, held: Sequence[int], rows: Sequence[int]) -> Columns:
    """Return some of the rows a rank holds.

    Args:
        columns: What the rank holds.
        held: Global number of each of its rows, ascending.
        rows: Global numbers to pick, each of them in `held`.
    """
    have = torch.tensor(held, dtype=torch.int64)
    return columns.select(torch.searchsorted(have, torch.tensor(rows, dtype=torch.int64)))


def in_row_order(pieces: Sequence[tuple[Sequence[int], Columns]]) -> Columns:
    """Join pieces, each with the global numbers of its rows, in ascending order of those."""
    numbers = [row for rows, _ in pieces for row in rows]
    order = torch.tensor(numbers, dtype=torch.int64).argsort()
    return Columns.concat([columns for _, columns in pieces]).select(order)
