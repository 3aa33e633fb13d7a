"""Tokens that older weights emitted: what the ratio compares with, and what a token then weighs.

pi_b is the behaviour policy, each token's own emitting weights; pi_prox the weights before the
step's first update; pi_theta the weights being trained.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from earl_trainer.algorithms.importance import LogRatios, WeightRules, unbounded_weights
from earl_trainer.algorithms.kl import log_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """Trained tokens under the policies that matter; finite everywhere, nothing with gradient."""

    logprobs: Float[Tensor, "*tokens"]
    """Under pi_theta."""
    old_logprobs: Float[Tensor, "*tokens"]
    """Under pi_prox; void for a correction that does not need it."""
    behaviour_logprobs: Float[Tensor, "*tokens"]
    """Under pi_b, as the engine recorded them."""
    staleness: Float[Tensor, "*tokens"]
    """Updates between pi_b and pi_prox."""
    rows: Int64[Tensor, "*tokens"]
    """Number of each token's row, from 0."""
    mask: Bool[Tensor, "*tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Centre:
    """What a clipped ratio is taken against, and the weight of each token's surrogate."""

    logprobs: Float[Tensor, "*tokens"]
    weights: Float[Tensor, "*tokens"]
    unbounded_weights: Float[Tensor, "*tokens"]
    """The same before any was capped or masked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """How a policy loss treats tokens of older weights."""

    name: str
    centre: Callable[[Emitted], Float[Tensor, "*tokens"]]
    weighted: bool
    """Whether the surrogate is weighted by centre / pi_b."""
    needs_old_logprobs: bool
    """Whether pi_prox has to be computed by a pass over the whole batch."""

    def apply(self, tokens: Emitted, rules: WeightRules) -> Centre:
        """Return the centre and the weights.

        Args:
            tokens: Of a micro-batch.
            rules: Which weights are believed.
        """
        centre = self.centre(tokens)
        if not self.weighted:
            ones = torch.ones_like(centre)
            return Centre(logprobs=centre, weights=ones, unbounded_weights=ones)
        ratios = LogRatios(
            values=log_ratio(centre, tokens.behaviour_logprobs), rows=tokens.rows, mask=tokens.mask
        )
        weights = unbounded_weights(ratios, rules.level)
        return Centre(logprobs=centre, weights=rules.bound(weights), unbounded_weights=weights)


def recomputed(tokens: Emitted) -> Float[Tensor, "*tokens"]:
    """pi_prox: the weights before the step's first update, whoever emitted the token."""
    return tokens.old_logprobs


def recorded(tokens: Emitted) -> Float[Tensor, "*tokens"]:
    """pi_b: the weights that emitted the token, as in PPO (arXiv:1707.06347, eq. 7)."""
    return tokens.behaviour_logprobs


def interpolated(tokens: Emitted) -> Float[Tensor, "*tokens"]:
    """pi_prox on the line from pi_b to pi_theta, without a pass of its own.

    log pi_prox = log pi_b + a (log pi_theta - log pi_b), a = (v_prox - v_b) / (v_theta - v_b), with
    v_theta = v_prox + 1 the version that the step makes (A-3PO, arXiv:2512.06547): a = s / (s + 1)
    at staleness s.
    """
    share = tokens.staleness / (tokens.staleness + 1.0)
    return tokens.behaviour_logprobs + share * (tokens.logprobs - tokens.behaviour_logprobs)


CORRECTIONS: dict[str, Correction] = {
    correction.name: correction
    for correction in (
        Correction(name="none", centre=recomputed, weighted=False, needs_old_logprobs=True),
        # AReaL's objective (arXiv:2505.24298, eq. 5).
        Correction(name="decoupled", centre=recomputed, weighted=True, needs_old_logprobs=True),
        Correction(name="loglinear", centre=interpolated, weighted=True, needs_old_logprobs=False),
        Correction(name="naive", centre=recorded, weighted=False, needs_old_logprobs=False),
    )
}
