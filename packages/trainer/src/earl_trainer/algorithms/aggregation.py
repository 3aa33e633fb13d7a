"""How losses per token become one number.

Every scheme is a weight per token and a total to divide by, both fixed for the whole mini-batch
before it is split. The loss is then a plain sum, so no split into micro-batches or over ranks, no
padding and no order can change it: parts add up their totals and divide by the sum.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

AggregationFunction = Callable[
    [Bool[Tensor, " tokens"], Int64[Tensor, " rows"]],
    tuple[Float[Tensor, " tokens"], Float[Tensor, ""]],
]


def token_mean(
    mask: Bool[Tensor, " tokens"], lengths: Int64[Tensor, " rows"]
) -> tuple[Float[Tensor, " tokens"], Float[Tensor, ""]]:
    """Weigh all trained tokens of the mini-batch alike.

    w_t = m_t, to be divided by sum(m) (DAPO, arXiv:2503.14476, eq. 8).

    Args:
        mask: [tokens] of all rows one after the other.
        lengths: [rows] tokens of each row, not used here.
    """
    weights = mask.float()
    return weights, weights.sum()


def sequence_mean(
    mask: Bool[Tensor, " tokens"], lengths: Int64[Tensor, " rows"]
) -> tuple[Float[Tensor, " tokens"], Float[Tensor, ""]]:
    """Weigh all rows alike: w_t = m_t / |m_i|, to be divided by the rows with a trained token.

    GRPO's own aggregation (DeepSeekMath, arXiv:2402.03300, eq. 3); tokens of long replies count
    less.

    Args:
        mask: [tokens] of all rows one after the other.
        lengths: [rows] tokens of each row.
    """
    rows = torch.repeat_interleave(torch.arange(len(lengths), device=mask.device), lengths)
    trained = torch.zeros(len(lengths), device=mask.device).index_add(0, rows, mask.float())
    return mask.float() / trained.clamp(min=1)[rows], (trained > 0).float().sum()


AGGREGATIONS: dict[str, AggregationFunction] = {
    "token-mean": token_mean,
    "sequence-mean": sequence_mean,
}
