"""How losses per token become one number.

Every scheme is a weight per token, fixed for the whole mini-batch before it is split. The loss is
then a plain sum, so no split into micro-batches, padding, or order can change it.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

AggregationFunction = Callable[
    [Bool[Tensor, " tokens"], Int64[Tensor, " rows"]], Float[Tensor, " tokens"]
]


def token_mean(
    mask: Bool[Tensor, " tokens"], lengths: Int64[Tensor, " rows"]
) -> Float[Tensor, " tokens"]:
    """Weigh all trained tokens of the mini-batch alike.

    w_t = m_t / sum(m) (DAPO, arXiv:2503.14476, eq. 8).

    Args:
        mask: [tokens] of all rows one after the other.
        lengths: [rows] tokens of each row, not used here.
    """
    return mask.float() / mask.sum().clamp(min=1)


def sequence_mean(
    mask: Bool[Tensor, " tokens"], lengths: Int64[Tensor, " rows"]
) -> Float[Tensor, " tokens"]:
    """Weigh all rows alike: w_t = m_t / (|m_i| R), R the rows with a trained token.

    GRPO's own aggregation (DeepSeekMath, arXiv:2402.03300, eq. 3); tokens of long replies count
    less.

    Args:
        mask: [tokens] of all rows one after the other.
        lengths: [rows] tokens of each row.
    """
    rows = torch.repeat_interleave(torch.arange(len(lengths), device=mask.device), lengths)
    trained = torch.zeros(len(lengths), device=mask.device).index_add(0, rows, mask.float())
    num_rows = (trained > 0).sum().clamp(min=1)
    return mask.float() / (trained.clamp(min=1)[rows] * num_rows)


AGGREGATIONS: dict[str, AggregationFunction] = {
    "token-mean": token_mean,
    "sequence-mean": sequence_mean,
}
