"""The guards of a run, from its config."""

from earl_trainer.algorithms.off_policy import CORRECTIONS
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
    guards: dict[str, tuple[str, Guard]] = {
        "kl": (
            rules.kl,
            LastingBreach(figure=_kl_figure(config), high=rules.kl_limit, num_steps=rules.kl_steps),
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
        "gradient": (rules.gradient, _skipping("policy/skipped_updates", config)),
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
    if ALGORITHMS[config.algorithm.name].needs_critic:
        guards["value_gradient"] = (
            rules.gradient,
            _skipping("policy/value_skipped_updates", config),
        )
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
    moves_from_step, has_reference = _knows_step(config), config.algorithm.kl_coefficient > 0.0
    for name, is_on, has_figure in (
        ("kl", Action(rules.kl) is not Action.OFF, has_reference or moves_from_step),
        ("max_update_kl", rules.max_update_kl > 0.0, moves_from_step),
    ):
        if is_on and not has_figure:
            or_else = "algorithm.kl_coefficient above 0, or " if name == "kl" else ""
            raise ValueError(
                f"guards.{name} needs {or_else}an algorithm whose loss compares with the policy "
                "before the step, and algorithm.correction none or decoupled, got "
                f"algorithm.name = {config.algorithm.name!r} and {config.correction!r}"
            )


def _kl_figure(config: RunConfig) -> str:
    if not config.algorithm.kl_coefficient:
        return "policy/kl"
    taken_off = config.algorithm.kl_in == "reward"
    return "advantage/reference_kl" if taken_off else "policy/reference_kl"


def _knows_step(config: RunConfig) -> bool:
    """Whether the loss tells how far the policy is from that before the step."""
    compares = ALGORITHMS[config.algorithm.name].needs_old_logprobs
    return compares and CORRECTIONS[config.correction].needs_old_logprobs


def _skipping(figure: str, config: RunConfig) -> LastingBreach:
    return LastingBreach(figure=figure, high=0.0, num_steps=config.guards.gradient_steps)
