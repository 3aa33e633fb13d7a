"""Losses per trained token; how they are summed is `aggregation.py`'s business."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from earl_trainer.algorithms.importance import WeightRules
from earl_trainer.algorithms.kl import KL_ESTIMATORS, k3, log_ratio
from earl_trainer.algorithms.off_policy import CORRECTIONS, Centre, Correction, Emitted
from earl_trainer.algorithms.rows import mean_over_row


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSettings:
    """The constants of the policy losses."""

    clip_low: float
    """epsilon below 1: the ratio counts as clipped under 1 - clip_low."""
    clip_high: float
    """epsilon above 1; larger than `clip_low` it is DAPO's clip-higher (arXiv:2503.14476)."""
    dual_clip: float = 0.0
    """Bound of the loss where the advantage is negative, in multiples of it; 0 for none."""
    kl_coefficient: float = 0.0
    """beta of the KL term to the reference policy, 0 for none."""
    kl_estimator: str = "k3"
    """A name of `KL_ESTIMATORS`."""
    entropy_coefficient: float = 0.0
    """Weight of the entropy that is added to what is maximised, 0 for none."""
    correction: Correction = CORRECTIONS["none"]
    """What becomes of tokens that older weights emitted."""
    weights: WeightRules = field(default_factory=WeightRules)
    """Which of their importance weights are believed, where the correction has any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossInputs:
    """What a loss may look at; finite everywhere, 0 where `mask` is False."""

    logprobs: Float[Tensor, "*tokens"]
    """Under the weights being trained, with gradient."""
    entropy: Float[Tensor, "*tokens"]
    """Of the distribution that each token was drawn from, under the weights being trained, with
    gradient."""
    old_logprobs: Float[Tensor, "*tokens"]
    """Under the weights before this step's first update; void if the correction does without."""
    behaviour_logprobs: Float[Tensor, "*tokens"]
    """Under the weights that emitted each token, as the engine recorded them."""
    staleness: Float[Tensor, "*tokens"]
    """Updates since each token was emitted."""
    reference_logprobs: Float[Tensor, "*tokens"]
    """Under the frozen reference policy."""
    advantages: Float[Tensor, "*tokens"]
    rows: Int64[Tensor, "*tokens"]
    """Number of each token's row, from 0; rows are whole."""
    mask: Bool[Tensor, "*tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOutputs:
    """A loss per token and what to report of it, also per token; void where the mask is False."""

    loss: Float[Tensor, "*tokens"]
    metrics: dict[str, Float[Tensor, "*tokens"]]


BEHAVIOUR_WEIGHT, BEHAVIOUR_WEIGHT_SQUARE = "behaviour_weight", "behaviour_weight_square"
"""Metrics of which the effective sample size is made once they are means."""

LossFunction = Callable[[LossInputs, LossSettings], LossOutputs]


def clipped_policy_loss(inputs: LossInputs, settings: LossSettings) -> LossOutputs:
    """PPO's clipped surrogate with GRPO's KL term, weighted where older weights emitted the token.

    L_t = w max(-A rho_t, -A clip(rho_t, 1 - eps_low, 1 + eps_high)) + beta KL_t with
    rho_t = pi / pi_centre and w constant (Schulman et al., arXiv:1707.06347, eq. 7; DeepSeekMath,
    arXiv:2402.03300, eq. 3). With the centre pi_prox and w = pi_prox / pi_b it is the decoupled
    objective of AReaL (arXiv:2505.24298, eq. 5). With a dual clip c the loss of a negative
    advantage is at most -c A (Ye et al., arXiv:1912.09729); TRL's `delta` bounds rho_t itself,
    which is the same for any c of at least 1 + eps_high. TRL's RLOO has one ratio for a row, the
    product of its tokens'; its variance grows with the length, so RLOO has rho_t here too.
    """
    centre = _centre(inputs, settings)
    ratio = log_ratio(inputs.logprobs, centre.logprobs).exp()
    return _clipped(inputs, settings, centre, ratio)


def sequence_policy_loss(inputs: LossInputs, settings: LossSettings) -> LossOutputs:
    """GSPO: the clipped surrogate with one ratio for a row, the geometric mean of its tokens'.

    s = exp(mean_t log(pi / pi_centre)), and token t's ratio is sg(s) pi / sg(pi): of the value s,
    with the token's own gradient (Zheng et al., arXiv:2507.18071, eq. 7 and 13). Summed with
    `sequence-mean` it is their sequence-level objective, which TRL has; unlike that it leaves
    every token an advantage of its own.
    """
    centre = _centre(inputs, settings)
    mean = mean_over_row(
        torch.where(inputs.mask, log_ratio(inputs.logprobs.detach(), centre.logprobs), 0.0),
        inputs.rows,
        inputs.mask,
    )
    ratio = (mean + inputs.logprobs - inputs.logprobs.detach()).exp()
    return _clipped(inputs, settings, centre, ratio)


def clipped_weight_loss(inputs: LossInputs, settings: LossSettings) -> LossOutputs:
    """CISPO: a policy gradient whose importance weight is clipped, and never the gradient.

    L_t = -w sg(clip(rho_t, 1 - eps_low, 1 + eps_high)) A log pi (MiniMax-M1, arXiv:2506.13585,
    section 3.1). The paper bounds the weight from above alone; verl bounds both sides by PPO's
    epsilons, TRL takes eps_high as the bound itself. Here epsilons count from 1 as in every other
    loss, and an eps_low of 1 is no bound below.
    """
    centre = _centre(inputs, settings)
    ratio = log_ratio(inputs.logprobs.detach(), centre.logprobs).exp()
    clipped = ratio.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high)
    return _complete(
        inputs,
        settings,
        centre,
        -clipped * inputs.advantages * inputs.logprobs,
        {"ratio": ratio, "clip_fraction": (clipped != ratio).float(), **_moved(inputs, settings)},
    )


def policy_gradient_loss(inputs: LossInputs, settings: LossSettings) -> LossOutputs:
    """REINFORCE: L_t = -w A log pi (Williams, 1992), with the KL and entropy terms of the others.

    Without a correction w is 1 and nothing looks at older log-probs. There is no ratio to the
    policy before the step, so each token is to be seen once; the updates of a step's earlier
    mini-batches are then all that separates a token from the policy that emitted it.
    """
    centre = _centre(inputs, settings)
    return _complete(inputs, settings, centre, -inputs.advantages * inputs.logprobs, {})


def negative_log_likelihood(inputs: LossInputs, settings: LossSettings) -> LossOutputs:
    """Weighted maximum likelihood: L_t = -A log pi(y_t) (cross-entropy for A = 1)."""
    return LossOutputs(loss=-inputs.advantages * inputs.logprobs, metrics={})


def _clipped(
    inputs: LossInputs,
    settings: LossSettings,
    centre: Centre,
    ratio: Float[Tensor, "*tokens"],
) -> LossOutputs:
    clipped = ratio.clamp(1.0 - settings.clip_low, 1.0 + settings.clip_high)
    unclipped_loss = -inputs.advantages * ratio
    clipped_loss = -inputs.advantages * clipped
    loss = torch.maximum(unclipped_loss, clipped_loss)
    metrics = {
        "ratio": ratio.detach(),
        "clip_fraction": (clipped_loss > unclipped_loss).float(),
        **_moved(inputs, settings),
    }
    if settings.dual_clip:
        bound = -settings.dual_clip * inputs.advantages
        over = (inputs.advantages < 0.0) & (loss > bound)
        loss = torch.where(over, bound, loss)
        metrics["dual_clip_fraction"] = over.float()
    return _complete(inputs, settings, centre, loss, metrics)


def _moved(inputs: LossInputs, settings: LossSettings) -> dict[str, Float[Tensor, "*tokens"]]:
    """How far the policy is from that before the step, where the correction knows that one."""
    if not settings.correction.needs_old_logprobs:
        return {}
    # From samples of the old policy: KL(old || new).
    return {"kl": k3(inputs.old_logprobs, inputs.logprobs.detach())}


def _centre(inputs: LossInputs, settings: LossSettings) -> Centre:
    return settings.correction.apply(
        Emitted(
            logprobs=inputs.logprobs.detach(),
            old_logprobs=inputs.old_logprobs,
            behaviour_logprobs=inputs.behaviour_logprobs,
            staleness=inputs.staleness,
            rows=inputs.rows,
            mask=inputs.mask,
        ),
        settings.weights,
    )


def _complete(
    inputs: LossInputs,
    settings: LossSettings,
    centre: Centre,
    loss: Float[Tensor, "*tokens"],
    metrics: dict[str, Float[Tensor, "*tokens"]],
) -> LossOutputs:
    """Weigh a surrogate, and add what holds for all: the KL term and the entropy bonus.

    The gradient of the entropy is its own, not that of a sample of it. TRL takes the mean of the
    entropy over tokens whatever is done with the losses; here all terms of a token are summed
    alike, so that their proportion does not depend on the length.
    """
    if settings.correction.weighted:
        loss = centre.weights * loss
        metrics = {
            **metrics,
            BEHAVIOUR_WEIGHT: centre.weights,
            BEHAVIOUR_WEIGHT_SQUARE: centre.weights.square(),
            "behaviour_weight_bounded": (centre.unbounded_weights != centre.weights).float(),
        }
    if settings.kl_coefficient > 0.0:
        divergence = KL_ESTIMATORS[settings.kl_estimator](
            inputs.logprobs, inputs.reference_logprobs
        )
        loss = loss + settings.kl_coefficient * divergence
        metrics = {**metrics, "reference_kl": divergence.detach()}
    if settings.entropy_coefficient > 0.0:
        loss = loss - settings.entropy_coefficient * inputs.entropy
    return LossOutputs(loss=loss, metrics=metrics)
