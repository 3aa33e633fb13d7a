"""The section of the configuration that chooses the algorithm."""

from typing import Annotated, Literal

from annotated_types import Gt, Le

from earl_trainer.config_fields import NonNegativeFloat, PositiveFloat, section


@section
class AlgorithmConfig:
    """The reinforcement-learning algorithm."""

    name: str = "grpo"
    """An entry of the algorithms table."""
    clip_low: Annotated[float, Gt(0.0), Le(1.0)] = 0.2
    """The ratio to the old policy counts as clipped below 1 - clip_low."""
    clip_high: PositiveFloat = 0.2
    """The ratio to the old policy counts as clipped above 1 + clip_high."""
    kl_coefficient: NonNegativeFloat = 0.0
    """Weight of the KL divergence to the policy after warm-up; 0 leaves the reference out."""
    aggregation: Literal["token-mean", "sequence-mean"] = "token-mean"
    """How the losses of tokens become one number: DAPO's way, or GRPO's own."""
    correction: Literal["auto", "none", "decoupled", "loglinear", "naive"] = "auto"
    """For tokens of older weights: AReaL's decoupled objective, the same without a pass for the
    proximal policy, or PPO's ratio to the weights that emitted the token; `none` compares with the
    newest weights as if they had. `auto` is `decoupled` where generation is ahead or rows are
    replayed, else `none`."""
    max_weight: PositiveFloat = 5.0
    """Bound of a token's importance weight, of `decoupled` and `loglinear`."""
    on_larger_weight: Literal["cap", "mask"] = "cap"
    """Larger weights are brought down to it, or their tokens left out."""
