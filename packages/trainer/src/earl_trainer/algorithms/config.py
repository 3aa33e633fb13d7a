"""The sections of the configuration that choose and tune the algorithm."""

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

from earl_trainer.config_fields import (
    AUTO,
    NonNegativeFloat,
    OrNone,
    PositiveFloat,
    PositiveInt,
    section,
)


@section
class AlgorithmConfig:
    """The reinforcement-learning algorithm and its loss; `null` is the algorithm's own value."""

    name: str = "grpo"
    """An entry of the algorithms table."""
    clip_low: OrNone[Annotated[float, Gt(0.0), Le(1.0)]] = None
    """The ratio to the old policy counts as clipped below 1 - clip_low; where the loss has one."""
    clip_high: OrNone[PositiveFloat] = None
    """The ratio to the old policy counts as clipped above 1 + clip_high."""
    dual_clip: OrNone[NonNegativeFloat] = None
    """Bound of the loss of a negative advantage, in multiples of it and above 1; 0 for none."""
    aggregation: OrNone[
        Literal[
            "token-mean", "sequence-mean", "sequence-sum", "sequence-sum-constant", "prompt-mean"
        ]
    ] = None
    """How the losses of tokens become one number: every token alike; every sample alike, by its
    mean, its sum, or its sum over the longest context; or every group alike. A value set here holds
    in warm-up and other imitation too, which else weigh every token alike."""
    entropy_coefficient: NonNegativeFloat = 0.0
    """Weight of the entropy of replies, which is maximised."""
    kl_coefficient: NonNegativeFloat = 0.0
    """Weight of the KL divergence to the policy after warm-up; 0 leaves the reference out."""
    kl_in: Literal["loss", "reward"] = "loss"
    """Whether the divergence is a term of the loss, or taken off the reward of each token."""
    kl_estimator: Literal["auto", "k1", "k2", "k3"] = AUTO
    """Of the divergence of a token; `auto` is `k3` in the loss and `k1` in the reward."""
    kl_target: NonNegativeFloat = 0.0
    """Divergence per token in nats that the weight in the reward is adapted to; 0 keeps it."""
    kl_horizon: PositiveInt = 100_000
    """Tokens over which the weight changes by at most 20 %, which is also the most of a step."""
    correction: Literal["auto", "none", "decoupled", "loglinear", "naive"] = AUTO
    """For tokens of older weights: AReaL's decoupled objective, the same without a pass for the
    proximal policy, or PPO's ratio to the weights that emitted the token; `none` compares with the
    newest weights as if they had. `auto` is `decoupled` where generation is ahead or rows are
    replayed, else `none`. A loss without a ratio takes no `naive`."""
    weight_level: Literal["token", "sequence", "geometric"] = "token"
    """Importance weights of `decoupled` and `loglinear` are a token's own, the product over its
    sample, or the geometric mean over it."""
    max_weight: PositiveFloat = 5.0
    """Bound of these weights."""
    min_weight: NonNegativeFloat = 0.0
    """The same from below, where weights outside are masked."""
    on_larger_weight: Literal["cap", "mask"] = "cap"
    """Larger weights are brought down to it, or their tokens left out."""


@section
class AdvantageConfig:
    """From rewards of episodes to advantages of tokens; `null` is the algorithm's own value."""

    reward_scale: PositiveFloat = 1.0
    """Factor of rewards."""
    reward_clip: NonNegativeFloat = 0.0
    """Bound of scaled rewards on both sides; 0 for none."""
    overlong_share: OrNone[Annotated[float, Ge(0.0), Lt(1.0)]] = None
    """Share of the longest context, at its end, over which up to 1 is taken off the reward."""
    normalisation: OrNone[Literal["none", "group", "batch"]] = None
    """Advantages as they are, over the spread of rewards in their group, or whitened over the step.
    """
    discount: Annotated[float, Gt(0.0), Le(1.0)] = 1.0
    """Per step, also called gamma."""
    trace_decay: Annotated[float, Ge(0.0), Le(1.0)] = 1.0
    """Lambda of GAE and V-trace."""
    step: Literal["token", "turn"] = "token"
    """What a step of GAE is: a token, or a whole reply."""
    max_trace: PositiveFloat = 1.0
    """Bound of the ratios of V-trace."""
    baseline_decay: Annotated[float, Ge(0.0), Lt(1.0)] = 0.95
    """Of the running mean of a seat's rewards, per episode."""


@section
class CriticConfig:
    """The critic, of algorithms that have one: a copy of the model that says what to expect."""

    lr_ratio: PositiveFloat = 1.0
    """Its learning rate in multiples of the policy's, whose schedule it follows."""
    value_clip: NonNegativeFloat = 0.2
    """How far a value may move within a step before its error stops to pull; 0 for any distance."""
