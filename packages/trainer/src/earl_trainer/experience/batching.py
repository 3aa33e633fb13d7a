"""Cutting ragged rows into padded micro-batches."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int64, Shaped
from torch import Tensor


def plan_micro_batches(lengths: Sequence[int], *, max_tokens: int) -> list[list[int]]:
    """Group rows of similar length so that each group, padded to its longest row, fits a budget.

    Args:
        lengths: Tokens of each row.
        max_tokens: Budget for rows x longest row; a row longer than that gets a batch of its own.

    Returns:
        Row indices, every row once, longest first.
    """
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    batches: list[list[int]] = []
    for row in order:
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= max_tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def padding_mask(lengths: Int64[Tensor, " rows"]) -> Bool[Tensor, "rows width"]:
    """True where a row padded on the right to the longest has a token of its own."""
    width = int(lengths.max()) if len(lengths) else 0
    return torch.arange(width, device=lengths.device) < lengths[:, None]


def pad(
    values: Shaped[Tensor, " tokens"], present: Bool[Tensor, "rows width"]
) -> Shaped[Tensor, "rows width"]:
    """Lay ragged values out as rows, zeros on the right.

    Causal attention never looks to the right, so no attention mask is needed and positions count
    from 0 in every row, however much is padded.

    Args:
        values: [tokens] of all rows one after the other.
        present: [rows, width] from `padding_mask`.
    """
    padded = torch.zeros(present.shape, dtype=values.dtype, device=values.device)
    return padded.masked_scatter(present, values)
