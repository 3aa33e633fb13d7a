"""Estimators of KL(policy || other) from samples of the policy, and the weight of a penalty."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

MAX_LOG_RATIO = 20.0
"""In nats: exp() of a larger log-ratio says nothing more and overflows soon after."""


def log_ratio(
    logprobs: Float[Tensor, "*shape"], other_logprobs: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """log(policy / other) of each sampled token, in [-20, 20] nats so that exp is finite."""
    return (logprobs - other_logprobs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def k3(
    logprobs: Float[Tensor, "*shape"], other_logprobs: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Non-negative, unbiased, low-variance estimate of the KL divergence per token in nats.

    k3 = exp(-d) - 1 + d with d = log(policy / other) (Schulman, "Approximating KL divergence",
    2020; the KL term of GRPO in DeepSeekMath, arXiv:2402.03300, eq. 4).
    """
    d = log_ratio(logprobs, other_logprobs)
    return torch.expm1(-d) + d


def k1(
    logprobs: Float[Tensor, "*shape"], other_logprobs: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Unbiased estimate of the KL divergence per token in nats, of either sign: d (Schulman, 2020).

    In a reward it is the one to use. As a loss its gradient is 0 in expectation, since
    E[grad log policy] = 0.
    """
    return log_ratio(logprobs, other_logprobs)


def k2(
    logprobs: Float[Tensor, "*shape"], other_logprobs: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Biased estimate of low variance, d^2 / 2 (Schulman, 2020).

    As a loss its gradient, d grad log policy, is in expectation that of the divergence.
    """
    return log_ratio(logprobs, other_logprobs).square() / 2.0


KlEstimator = Callable[[Float[Tensor, "*shape"], Float[Tensor, "*shape"]], Float[Tensor, "*shape"]]

KL_ESTIMATORS: dict[str, KlEstimator] = {"k1": k1, "k2": k2, "k3": k3}


@dataclass(frozen=True, slots=True, kw_only=True)
class KlController:
    """Moves the weight of a KL penalty so that the divergence stays near a target."""

    target: float
    """In nats per token; 0 leaves the weight as it is."""
    horizon: int
    """Tokens over which it moves by 20 %, at a divergence that is as far off or more; a longer step
    moves it no further."""

    def next_weight(self, weight: float, *, divergence: float, num_tokens: int) -> float:
        """Return the weight after a step.

        beta (1 + clip(KL / target - 1, -0.2, 0.2) n / horizon) (Ziegler et al., arXiv:1909.08593,
        section 2.2, as in their code, where n are episodes; here n are trained tokens). Deviation:
        n / horizon is at most 1. At five horizons a step without divergence, such as the first,
        would make beta 0, from where no factor brings it back.

        Args:
            weight: beta of the step.
            divergence: KL(policy || reference), mean per token of it.
            num_tokens: n.
        """
        if not self.target:
            return weight
        error = min(0.2, max(-0.2, divergence / self.target - 1.0))
        return weight * (1.0 + error * min(1.0, num_tokens / self.horizon))
