"""Importance weights of tokens that other weights, or other numerics, emitted."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from earl_trainer.algorithms.kl import MAX_LOG_RATIO
from earl_trainer.algorithms.rows import mean_over_row, sum_over_row


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRatios:
    """log(policy / behaviour policy) of tokens; 0 where the mask is False."""

    values: Float[Tensor, "*tokens"]
    rows: Int64[Tensor, "*tokens"]
    """Number of each token's row, from 0."""
    mask: Bool[Tensor, "*tokens"]


def of_token(ratios: LogRatios) -> Float[Tensor, "*tokens"]:
    """The ratio of the token itself: biased, of low variance."""
    return ratios.values


def of_sequence(ratios: LogRatios) -> Float[Tensor, "*tokens"]:
    """The product over the row: unbiased, with a variance that grows with its length."""
    return sum_over_row(ratios.values, ratios.rows)


def of_geometric_mean(ratios: LogRatios) -> Float[Tensor, "*tokens"]:
    """The geometric mean over the row's trained tokens (GSPO, arXiv:2507.18071, eq. 7)."""
    return mean_over_row(ratios.values, ratios.rows, ratios.mask)


LEVELS: dict[str, Callable[[LogRatios], Float[Tensor, "*tokens"]]] = {
    "token": of_token,
    "sequence": of_sequence,
    "geometric": of_geometric_mean,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightRules:
    """Which importance weights are believed.

    Weights are constants of the loss. A token whose weight is 0 still counts in what the loss is
    divided by: else those that are left would weigh the more. TRL has the same weights by token and
    by sequence; its truncation may also bring smaller ones up, which would overstate what the
    policy has turned away from.
    """

    level: str = "token"
    """Whose ratio a token's weight is: a name of `LEVELS`."""
    max_weight: float = 5.0
    """Largest weight."""
    min_weight: float = 0.0
    """Smallest weight, where those outside are masked."""
    on_larger: str = "cap"
    """`cap` brings larger weights down to the largest (truncated importance sampling: the rho-bar
    of IMPALA, arXiv:1802.01561); `mask` leaves tokens with a weight outside out of the loss."""

    def bound(self, weights: Float[Tensor, "*tokens"]) -> Float[Tensor, "*tokens"]:
        """Return what is left of `unbounded_weights` of this level."""
        if self.on_larger == "mask":
            outside = (weights > self.max_weight) | (weights < self.min_weight)
            return torch.where(outside, 0.0, weights)
        return weights.clamp(max=self.max_weight)


def unbounded_weights(ratios: LogRatios, level: str) -> Float[Tensor, "*tokens"]:
    """Return policy / behaviour policy at a level, in [exp(-20), exp(20)] so that it is finite."""
    return LEVELS[level](ratios).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def effective_share(total: float, squares: float, count: float) -> float:
    """Effective sample size as a share of the samples: (sum w)^2 / (n sum w^2).

    Kong, "A note on importance sampling using standardized weights", 1992. 1 if all weigh alike,
    1 / n if one has all the weight; 0 without any weight.

    Args:
        total: Sum of the weights.
        squares: Sum of their squares.
        count: n.
    """
    return total * total / (count * squares) if squares > 0.0 else 0.0
