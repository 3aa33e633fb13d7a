"""Estimators of KL(policy || other) from samples of the policy."""

import torch
from jaxtyping import Float
from torch import Tensor

# exp() of a larger log-ratio says nothing more and overflows soon after.
_MAX_LOG_RATIO = 20.0


def log_ratio(
    logprobs: Float[Tensor, "*shape"], other_logprobs: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """log(policy / other) of each sampled token, in [-20, 20] nats so that exp is finite."""
    return (logprobs - other_logprobs).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)


def k3(
    logprobs: Float[Tensor, "*shape"], other_logprobs: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Non-negative, unbiased, low-variance estimate of the KL divergence per token in nats.

    k3 = exp(-d) - 1 + d with d = log(policy / other) (Schulman, "Approximating KL divergence",
    2020; the KL term of GRPO in DeepSeekMath, arXiv:2402.03300, eq. 4).
    """
    d = log_ratio(logprobs, other_logprobs)
    return torch.expm1(-d) + d
