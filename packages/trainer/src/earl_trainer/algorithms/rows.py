"""Statistics of whole rows, told to each of their tokens."""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor


def row_sums(
    values: Float[Tensor, "*tokens"], rows: Int64[Tensor, "*tokens"], num_rows: int
) -> Float[Tensor, " rows"]:
    """Add up the tokens of each row; 0 for a row without any.

    Args:
        values: 0 at tokens that are not to count.
        rows: Number of each token's row, from 0.
        num_rows: How many there are.
    """
    sums = torch.zeros(num_rows, dtype=values.dtype, device=values.device)
    return sums.index_add(0, rows.flatten(), values.flatten())


def sum_over_row(
    values: Float[Tensor, "*tokens"], rows: Int64[Tensor, "*tokens"]
) -> Float[Tensor, "*tokens"]:
    """Give every token the sum over its row.

    Args:
        values: 0 at tokens that are not to count.
        rows: Number of each token's row, from 0; at least one token.
    """
    return row_sums(values, rows, int(rows.max()) + 1)[rows]


def mean_over_row(
    values: Float[Tensor, "*tokens"],
    rows: Int64[Tensor, "*tokens"],
    mask: Bool[Tensor, "*tokens"],
) -> Float[Tensor, "*tokens"]:
    """Give every token the mean over its row's trained tokens; 0 where there is none.

    Args:
        values: 0 where the mask is False.
        rows: Number of each token's row, from 0; at least one token.
        mask: True where a token is trained.
    """
    counts = sum_over_row(mask.to(values.dtype), rows)
    return sum_over_row(values, rows) / counts.clamp(min=1.0)
