"""Losses per trained token; how they are summed is `aggregation.py`'s business."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from earl_trainer.algorithms.kl import k3, log_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSettings:
    """The constants of the policy losses."""

    clip_low: float
    """epsilon below 1: the ratio counts as clipped under 1 - clip_low."""
    clip_high: float
    """epsilon above 1; larger than `clip_low` it is DAPO's clip-higher (arXiv:2503.14476)."""
    kl_coefficient: float
    """beta of the KL term to the reference policy, 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossInputs:
    """What a loss may look at; finite everywhere, 0 where `mask` is False."""

    logprobs: Float[Tensor, "rows tokens"]
    """Under the weights being trained, with gradient."""
    old_logprobs: Float[Tensor, "rows tokens"]
    """Under the weights before this step's first update."""
    reference_logprobs: Float[Tensor, "rows tokens"]
    """Under the frozen reference policy."""
    advantages: Float[Tensor, "rows tokens"]
    mask: Bool[Tensor, "rows tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOutputs:
    """A loss per token and what to report of it, also per token; void where the mask is False."""

    loss: Float[Tensor, "rows tokens"]
    metrics: dict[str, Float[Tensor, "rows tokens"]]


LossFunction = Callable[[LossInputs, LossSettings], LossOutputs]


def clipped_policy_loss(inputs: LossInputs, settings: LossSettings) -> LossOutputs:
    """PPO's clipped surrogate with GRPO's KL term.

    L_t = max(-A rho_t, -A clip(rho_t, 1 - eps_low, 1 + eps_high)) + beta k3_t with
    rho_t = pi / pi_old (Schulman et al., arXiv:1707.06347, eq. 7; DeepSeekMath, arXiv:2402.03300,
    eq. 3).
    """
    ratio = log_ratio(inputs.logprobs, inputs.old_logprobs).exp()
    clipped = ratio.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high)
    unclipped_loss = -inputs.advantages * ratio
    clipped_loss = -inputs.advantages * clipped
    loss = torch.maximum(unclipped_loss, clipped_loss)
    metrics = {
        "ratio": ratio.detach(),
        "clip_fraction": (clipped_loss > unclipped_loss).float(),
        # From samples of the old policy: KL(old || new).
        "kl": k3(inputs.old_logprobs, inputs.logprobs.detach()),
    }
    if settings.kl_coefficient > 0.0:
        reference_kl = k3(inputs.logprobs, inputs.reference_logprobs)
        loss = loss + settings.kl_coefficient * reference_kl
        metrics["reference_kl"] = reference_kl.detach()
    return LossOutputs(loss=loss, metrics=metrics)


def negative_log_likelihood(inputs: LossInputs, settings: LossSettings) -> LossOutputs:
    """Weighted maximum likelihood: L_t = -A log pi(y_t) (cross-entropy for A = 1)."""
    return LossOutputs(loss=-inputs.advantages * inputs.logprobs, metrics={})
