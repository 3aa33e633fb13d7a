"""The section of the configuration that says what is watched, and what follows."""

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

from earl_trainer.config_fields import NonNegativeFloat, NonNegativeInt, PositiveInt, section

_Action = Literal["off", "warn", "stop", "roll-back"]


@section
class GuardsConfig:
    """What watches the phase after warm-up; each guard is off, warns, stops, or rolls back."""

    max_update_kl: NonNegativeFloat = 0.0
    """Updates of a step are left out from the one on whose mini-batch has a larger KL divergence to
    the policy before the step, in nats per token; 0 makes all. Not with `algorithm.correction`
    `loglinear` or `naive`, which do without that policy."""
    kl: _Action = "off"
    """For a KL divergence above `kl_limit`: to the reference policy where loss or reward have one,
    else of the step's updates, as for `max_update_kl`."""
    kl_limit: NonNegativeFloat = 0.1
    """Nats per token."""
    kl_steps: PositiveInt = 3
    """Steps in a row that are above it."""
    entropy: _Action = "warn"
    """For an entropy below `entropy_floor`."""
    entropy_floor: NonNegativeFloat = 0.005
    """Nats per token."""
    entropy_steps: PositiveInt = 5
    """Steps in a row that are below it."""
    loss_spike: _Action = "warn"
    """For a loss far above those of the steps before."""
    loss_spike_deviations: Annotated[float, Gt(0.0)] = 20.0
    """How far above their median, in deviations estimated from their median distance to it."""
    loss_spike_steps: Annotated[int, Ge(2)] = 20
    """Steps before that it is compared with."""
    gradient: _Action = "warn"
    """For steps of which an update, of the critic too, was skipped: its gradient was not finite."""
    gradient_steps: PositiveInt = 1
    """Such steps in a row."""
    plateau: Literal["off", "warn", "stop"] = "off"
    """For a mean reward that has hardly risen from one `plateau_steps` to the next."""
    plateau_gain: float = 0.01
    """By less than this."""
    plateau_steps: PositiveInt = 50
    """Steps of each of the two means."""
    hacking: _Action = "off"
    """For a reward that rises while the score of checkups falls; needs `evaluation.every_steps`."""
    hacking_drop: NonNegativeFloat = 0.05
    """Points per game that it has to fall by."""
    hacking_checkups: Annotated[int, Ge(2)] = 3
    """From the first to the last that are compared."""
    normalise_rewards: Literal["off", "scale", "centre"] = "off"
    """Rewards that advantages come from are divided by the standard deviation of all so far, or
    their mean is taken off as well. It cancels out where groups are normalised."""
    max_rollbacks: NonNegativeInt = 2
    """Of a run; the next one stops it."""
    rollback_lr: Annotated[float, Gt(0.0), Le(1.0)] = 0.5
    """After a rollback the learning rate is multiplied by this, and other games are played."""
