"""Rules of algorithms: what one needs, and what does not go together."""

from collections.abc import Iterator

from earl_envs import suggest

from earl_trainer.algorithms.table import ALGORITHMS, Algorithm
from earl_trainer.algorithms.trajectories import gae
from earl_trainer.config import RunConfig
from earl_trainer.config_fields import AUTO


def check_algorithm(config: RunConfig) -> None:
    """Refuse an algorithm that the rest of the run does not fit.

    Raises:
        ValueError: With the rule and the value.
    """
    name = config.algorithm.name
    if name not in ALGORITHMS:
        raise ValueError(suggest(name, ALGORITHMS, what="algorithm"))
    algorithm = ALGORITHMS[name]
    for rules in (_about_groups, _about_critics, _about_divergence, _about_weights):
        for broken, rule in rules(config, algorithm):
            if broken:
                raise ValueError(rule)


Rules = Iterator[tuple[bool, str]]


def _about_groups(config: RunConfig, algorithm: Algorithm) -> Rules:
    size, normalisation = config.rollout.group_size, config.advantage.normalisation
    yield (
        algorithm.needs_groups and size < 2 and config.preference.name == "none",
        f"{algorithm.name} compares the episodes of a group: rollout.group_size must be >= 2, got "
        f"{size}",
    )
    yield (
        normalisation == "group" and size < 2,
        f"advantage.normalisation group takes the spread of a group: rollout.group_size must be "
        f">= 2, got {size}",
    )


def _about_critics(config: RunConfig, algorithm: Algorithm) -> Rules:
    yield (
        config.reward.truncation == "bootstrap" and not algorithm.needs_critic,
        "reward.truncation bootstrap takes what a critic expects: algorithm.name must be one of "
        f"{', '.join(_names_with_critic())}, got {algorithm.name!r}",
    )
    yield (
        config.advantage.step == "turn" and algorithm.along is not gae,
        f"advantage.step turn is a step of GAE: algorithm.name must be ppo, got {algorithm.name!r}",
    )


def _about_divergence(config: RunConfig, algorithm: Algorithm) -> Rules:
    rules = config.algorithm
    yield (
        rules.kl_coefficient > 0.0 and not algorithm.reinforces,
        f"the loss of {algorithm.name} has no KL term: algorithm.kl_coefficient must be 0, got "
        f"{rules.kl_coefficient}",
    )
    yield (
        rules.kl_in == "loss" and rules.kl_estimator == "k1" and rules.kl_coefficient > 0.0,
        "the gradient of k1 is 0 in expectation: algorithm.kl_estimator must be k2 or k3 with "
        "algorithm.kl_in loss, got 'k1'",
    )
    yield (
        rules.kl_target > 0.0 and (rules.kl_in == "loss" or rules.kl_coefficient == 0.0),
        "algorithm.kl_target adapts the weight of a penalty: algorithm.kl_in must be reward and "
        f"algorithm.kl_coefficient above 0, got {rules.kl_in!r} and {rules.kl_coefficient}",
    )


def _about_weights(config: RunConfig, algorithm: Algorithm) -> Rules:
    rules = config.algorithm
    yield (
        algorithm.corrects_itself and rules.correction not in (AUTO, "none"),
        f"{algorithm.name} weighs tokens of older weights itself: algorithm.correction must be "
        f"auto or none, got {rules.correction!r}",
    )
    yield (
        rules.dual_clip is not None and 0.0 < rules.dual_clip <= 1.0,
        "a dual clip is above 1, where the ratio begins, or 0 for none: algorithm.dual_clip, got "
        f"{rules.dual_clip}",
    )
    yield (
        rules.min_weight > 0.0 and rules.on_larger_weight == "cap",
        "only weights that are masked have a bound from below: algorithm.on_larger_weight must be "
        "mask or algorithm.min_weight 0, got 'cap' and "
        f"{rules.min_weight}",
    )
    yield (
        rules.min_weight >= rules.max_weight,
        "algorithm.min_weight must be below algorithm.max_weight, got "
        f"{rules.min_weight} and {rules.max_weight}",
    )


def _names_with_critic() -> list[str]:
    return [algorithm.name for algorithm in ALGORITHMS.values() if algorithm.needs_critic]
