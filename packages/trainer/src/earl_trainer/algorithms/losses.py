"""Losses per trained token; how they are summed is `aggregation.py`'s business."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from earl_trainer.algorithms.kl import k3, log_ratio
from earl_trainer.algorithms.off_policy import CORRECTIONS, Correction, Emitted


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSettings:
    """The constants of the policy losses."""

    clip_low: float
    """epsilon below 1: the ratio counts as clipped under 1 - clip_low."""
    clip_high: float
    """epsilon above 1; larger than `clip_low` it is DAPO's clip-higher (arXiv:2503.14476)."""
    kl_coefficient: float
    """beta of the KL term to the reference policy, 0 for none."""
    correction: Correction = CORRECTIONS["none"]
    """What becomes of tokens that older weights emitted."""
    max_weight: float = 5.0
    """Bound of a token's importance weight, where the correction has one."""
    on_larger_weight: str = "cap"
    """`cap` or `mask`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossInputs:
    """What a loss may look at; finite everywhere, 0 where `mask` is False."""

    logprobs: Float[Tensor, "*tokens"]
    """Under the weights being trained, with gradient."""
    old_logprobs: Float[Tensor, "*tokens"]
    """Under the weights before this step's first update; void if the correction does without."""
    behaviour_logprobs: Float[Tensor, "*tokens"]
    """Under the weights that emitted each token, as the engine recorded them."""
    staleness: Float[Tensor, "*tokens"]
    """Updates since each token was emitted."""
    reference_logprobs: Float[Tensor, "*tokens"]
    """Under the frozen reference policy."""
    advantages: Float[Tensor, "*tokens"]
    mask: Bool[Tensor, "*tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOutputs:
    """A loss per token and what to report of it, also per token; void where the mask is False."""

    loss: Float[Tensor, "*tokens"]
    metrics: dict[str, Float[Tensor, "*tokens"]]


LossFunction = Callable[[LossInputs, LossSettings], LossOutputs]


def clipped_policy_loss(inputs: LossInputs, settings: LossSettings) -> LossOutputs:
    """PPO's clipped surrogate with GRPO's KL term, weighted where older weights emitted the token.

    L_t = w max(-A rho_t, -A clip(rho_t, 1 - eps_low, 1 + eps_high)) + beta k3_t with
    rho_t = pi / pi_centre and w constant (Schulman et al., arXiv:1707.06347, eq. 7; DeepSeekMath,
    arXiv:2402.03300, eq. 3). With the centre pi_prox and w = pi_prox / pi_b it is the decoupled
    objective of AReaL (arXiv:2505.24298, eq. 5).
    """
    emitted = Emitted(
        logprobs=inputs.logprobs.detach(),
        old_logprobs=inputs.old_logprobs,
        behaviour_logprobs=inputs.behaviour_logprobs,
        staleness=inputs.staleness,
    )
    centre = settings.correction.apply(
        emitted, max_weight=settings.max_weight, on_larger=settings.on_larger_weight
    )
    ratio = log_ratio(inputs.logprobs, centre.logprobs).exp()
    clipped = ratio.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high)
    unclipped_loss = -inputs.advantages * ratio
    clipped_loss = -inputs.advantages * clipped
    loss = torch.maximum(unclipped_loss, clipped_loss)
    metrics = {
        "ratio": ratio.detach(),
        "clip_fraction": (clipped_loss > unclipped_loss).float(),
        # From samples of the old policy: KL(old || new).
        "kl": k3(centre.logprobs, emitted.logprobs),
    }
    if settings.correction.weighted:
        loss = centre.weights * loss
        metrics["behaviour_weight"] = centre.weights
        metrics["behaviour_weight_bounded"] = (
            log_ratio(centre.logprobs, inputs.behaviour_logprobs).exp() > settings.max_weight
        ).float()
    if settings.kl_coefficient > 0.0:
        reference_kl = k3(inputs.logprobs, inputs.reference_logprobs)
        loss = loss + settings.kl_coefficient * reference_kl
        metrics["reference_kl"] = reference_kl.detach()
    return LossOutputs(loss=loss, metrics=metrics)


def negative_log_likelihood(inputs: LossInputs, settings: LossSettings) -> LossOutputs:
    """Weighted maximum likelihood: L_t = -A log pi(y_t) (cross-entropy for A = 1)."""
    return LossOutputs(loss=-inputs.advantages * inputs.logprobs, metrics={})
