"""How losses per token become one number.

Every scheme is a weight per token and a total to divide by, both fixed for the whole mini-batch
before it is split. The loss is then a plain sum, so no split into micro-batches or over ranks, no
padding and no order can change it: parts add up their totals and divide by the sum.
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from earl_trainer.algorithms.rows import row_sums

Weights = tuple[Float[Tensor, " tokens"], Float[Tensor, ""]]
Facts = Mapping[str, Tensor]
"""What is known of each row besides: its columns."""
AggregationFunction = Callable[[Bool[Tensor, " tokens"], Int64[Tensor, " rows"], Facts], Weights]


def token_mean(
    mask: Bool[Tensor, " tokens"], lengths: Int64[Tensor, " rows"], facts: Facts
) -> Weights:
    """Weigh all trained tokens of the mini-batch alike.

    w_t = m_t, to be divided by sum(m) (DAPO, arXiv:2503.14476, eq. 8; TRL's `dapo`). TRL's `bnpo`
    divides by the tokens of each micro-batch, so that the split changes the gradient.

    Args:
        mask: [tokens] of all rows one after the other.
        lengths: [rows] tokens of each row, not used here.
        facts: Of the rows, not used here.
    """
    weights = mask.float()
    return weights, weights.sum()


def sequence_mean(
    mask: Bool[Tensor, " tokens"], lengths: Int64[Tensor, " rows"], facts: Facts
) -> Weights:
    """Weigh all rows alike: w_t = m_t / |m_i|, to be divided by the rows with a trained token.

    GRPO's own aggregation (DeepSeekMath, arXiv:2402.03300, eq. 3; TRL's `grpo`); tokens of long
    replies count less. TRL divides by all rows: there a row of which nothing is trained makes the
    step smaller, as if it had been learned from.

    Args:
        mask: [tokens] of all rows one after the other.
        lengths: [rows] tokens of each row.
        facts: Of the rows, not used here.
    """
    trained = _trained_tokens(mask, lengths)
    weights = mask.float() / trained.clamp(min=1).repeat_interleave(lengths)
    return weights, (trained > 0).float().sum()


def sequence_sum(
    mask: Bool[Tensor, " tokens"], lengths: Int64[Tensor, " rows"], facts: Facts
) -> Weights:
    """Add up the tokens of a row: w_t = m_t, to be divided by the rows with a trained token.

    REINFORCE's own, as the log-prob of a reply is the sum of its tokens' (Ahmadian et al.,
    arXiv:2402.14740); the loss grows with the length.

    Args:
        mask: [tokens] of all rows one after the other.
        lengths: [rows] tokens of each row.
        facts: Of the rows, not used here.
    """
    return mask.float(), (_trained_tokens(mask, lengths) > 0).float().sum()


def sequence_sum_over(max_tokens: int) -> AggregationFunction:
    """Add up the tokens of a row and divide by a constant: w_t = m_t / L, divided by the rows.

    Dr.GRPO's (arXiv:2503.20783; TRL's `dr_grpo`, there with all rows), which no length biases.
    verl's `seq-mean-token-sum-norm` leaves out the division by the rows, so that its step grows
    with the batch; here a batch of twice as many rows has the same mean.

    Args:
        max_tokens: L.
    """

    def sequence_sum_over_constant(
        mask: Bool[Tensor, " tokens"], lengths: Int64[Tensor, " rows"], facts: Facts
    ) -> Weights:
        weights, total = sequence_sum(mask, lengths, facts)
        return weights / max_tokens, total

    return sequence_sum_over_constant


def prompt_mean(
    mask: Bool[Tensor, " tokens"], lengths: Int64[Tensor, " rows"], facts: Facts
) -> Weights:
    """Weigh all groups alike, and the tokens of a group: w_t = m_t / |m_g|, divided by the groups.

    SkyRL's prompt mean. A group counts by the share of its tokens that is here, so that parts of it
    may be in other mini-batches and at other workers.

    Args:
        mask: [tokens] of all rows one after the other.
        lengths: [rows] tokens of each row, not used here.
        facts: With `group_tokens`: trained tokens of each row's group, wherever they are.
    """
    group_tokens = facts["group_tokens"].to(mask.device).clamp(min=1.0)
    weights = mask.float() / group_tokens.repeat_interleave(lengths)
    return weights, weights.sum()


_FIXED: dict[str, AggregationFunction] = {
    "token-mean": token_mean,
    "sequence-mean": sequence_mean,
    "sequence-sum": sequence_sum,
    "prompt-mean": prompt_mean,
}
_OVER_CONSTANT = "sequence-sum-constant"
AGGREGATIONS = (*_FIXED, _OVER_CONSTANT)


def find_aggregation(name: str, *, max_tokens: int) -> AggregationFunction:
    """Return the aggregation of a name of `AGGREGATIONS`.

    Args:
        name: Of it.
        max_tokens: What a row's sum is divided by, where that is a constant.
    """
    return sequence_sum_over(max_tokens) if name == _OVER_CONSTANT else _FIXED[name]


def _trained_tokens(
    mask: Bool[Tensor, " tokens"], lengths: Int64[Tensor, " rows"]
) -> Float[Tensor, " rows"]:
    rows = torch.repeat_interleave(torch.arange(len(lengths), device=mask.device), lengths)
    return row_sums(mask.float(), rows, len(lengths))
