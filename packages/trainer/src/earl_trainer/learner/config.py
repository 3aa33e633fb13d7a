"""The sections of the configuration for updates."""

from typing import Annotated, Literal

from annotated_types import Ge, Lt

from earl_trainer.config_fields import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    section,
)


@section
class LearnerConfig:
    """The model update; steps and rates are of reinforcement learning, the rest of both phases."""

    num_steps: NonNegativeInt = 70
    """Steps of the phase, each with episodes of its own."""
    lr: NonNegativeFloat = 1e-3
    """Peak learning rate."""
    lr_warmup_steps: NonNegativeInt = 2
    """Steps to the peak; a cosine to a tenth of it follows."""
    num_minibatches: PositiveInt = 2
    """Optimizer updates per pass over a step's samples."""
    num_epochs: PositiveInt = 1
    """Passes over a step's samples."""
    max_microbatch_tokens: PositiveInt = 8192
    """Tokens per forward and backward pass; bounds memory, changes no gradient. The longest context
    has to fit."""
    packing: Literal["fewest-first", "first-fit", "karmarkar-karp"] = "fewest-first"
    """How samples share these passes: each where the fewest are, each in the first that it fits, or
    so that passes have about equally many tokens."""
    max_grad_norm: NonNegativeFloat = 1.0
    """Gradients are scaled down to this global norm; 0 leaves them as they are."""
    beta1: Annotated[float, Ge(0.0), Lt(1.0)] = 0.9
    """AdamW's first decay."""
    beta2: Annotated[float, Ge(0.0), Lt(1.0)] = 0.95
    """AdamW's second decay."""
    weight_decay: NonNegativeFloat = 0.0
    """AdamW's decay of matrices."""


@section
class WarmupConfig:
    """The supervised phase before: scripted play, imitated by the same learner."""

    num_steps: NonNegativeInt = 200
    """Steps of the phase; 0 leaves it out."""
    num_episodes: PositiveInt = 128
    """Scripted episodes of one step."""
    lr: NonNegativeFloat = 2e-3
    """Peak learning rate."""
    lr_warmup_steps: NonNegativeInt = 10
    """Steps to the peak; a cosine to a tenth of it follows."""
    player: str = "random"
    """The opponent of the suite that plays the learner's seat."""
