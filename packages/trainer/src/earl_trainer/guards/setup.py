"""The guards of a run, from its config."""

from earl_trainer.algorithms.table import ALGORITHMS
from earl_trainer.config import RunConfig
from earl_trainer.guards.bounds import LastingBreach
from earl_trainer.guards.guard import Action, Guard
from earl_trainer.guards.hacking import RewardHacking
from earl_trainer.guards.panel import Panel, Watch
from earl_trainer.guards.plateau import RewardPlateau
from earl_trainer.guards.spike import LossSpike


def make_panel(config: RunConfig) -> Panel:
    """Return the guards that are switched on."""
    rules = config.guards
    kl = "policy/reference_kl" if config.algorithm.kl_coefficient else "policy/kl"
    guards: dict[str, tuple[str, Guard]] = {
        "kl": (
            rules.kl,
            LastingBreach(figure=kl, high=rules.kl_limit, num_steps=rules.kl_steps),
        ),
        "entropy": (
            rules.entropy,
            LastingBreach(
                figure="policy/entropy", low=rules.entropy_floor, num_steps=rules.entropy_steps
            ),
        ),
        "loss_spike": (
            rules.loss_spike,
            LossSpike(deviations=rules.loss_spike_deviations, num_steps=rules.loss_spike_steps),
        ),
        "gradient": (
            rules.gradient,
            LastingBreach(
                figure="policy/skipped_updates", high=0.0, num_steps=rules.gradient_steps
            ),
        ),
        "plateau": (
            rules.plateau,
            RewardPlateau(least_gain=rules.plateau_gain, num_steps=rules.plateau_steps),
        ),
        "hacking": (
            rules.hacking,
            RewardHacking(
                least_drop=rules.hacking_drop,
                num_checkups=rules.hacking_checkups,
                every_steps=max(1, config.evaluation.every_steps),
            ),
        ),
    }
    return Panel(
        watches=[
            Watch(name=name, guard=guard, action=Action(action))
            for name, (action, guard) in guards.items()
            if Action(action) is not Action.OFF
        ]
    )


def check_guards(config: RunConfig) -> None:
    """Refuse guards that could never find anything.

    Raises:
        ValueError: With the rule and the value.
    """
    rules = config.guards
    if Action(rules.hacking) is not Action.OFF and not config.evaluation.every_steps:
        raise ValueError(
            "guards.hacking compares rewards with checkups: evaluation.every_steps must be >= 1, "
            f"got {config.evaluation.every_steps}"
        )
    compares = ALGORITHMS[config.algorithm.name].needs_old_logprobs
    for name, is_on in (
        ("kl", Action(rules.kl) is not Action.OFF),
        ("max_update_kl", rules.max_update_kl > 0.0),
    ):
        if is_on and not compares:
            raise ValueError(
                f"guards.{name} needs an algorithm whose loss compares with an older policy, got "
                f"algorithm.name = {config.algorithm.name!r}"
            )
