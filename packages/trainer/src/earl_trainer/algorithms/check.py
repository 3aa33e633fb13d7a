"""Rules of algorithms: what one needs, and what does not go together."""

from collections.abc import Iterator, Sequence

from earl_envs import suggest

from earl_trainer.algorithms.advantages import running_mean
from earl_trainer.algorithms.losses import clipped_policy_loss, sequence_policy_loss
from earl_trainer.algorithms.off_policy import CORRECTIONS
from earl_trainer.algorithms.table import ALGORITHMS, Algorithm
from earl_trainer.algorithms.trajectories import gae, vtrace
from earl_trainer.config import RunConfig
from earl_trainer.config_fields import AUTO
from earl_trainer.unused import refuse_unused


def check_algorithm(config: RunConfig) -> None:
    """Refuse an algorithm that the rest of the run does not fit.

    Raises:
        ValueError: With the rule and the value.
    """
    name = config.algorithm.name
    if name not in ALGORITHMS:
        raise ValueError(suggest(name, ALGORITHMS, what="algorithm"))
    algorithm = ALGORITHMS[name]
    for rules in (_about_groups, _about_critics, _about_divergence, _about_age, _about_weights):
        for broken, rule in rules(config, algorithm):
            if broken:
                raise ValueError(rule)
    _check_constants(config, algorithm)


Rules = Iterator[tuple[bool, str]]


def _about_groups(config: RunConfig, algorithm: Algorithm) -> Rules:
    size, normalisation = config.rollout.group_size, config.advantage.normalisation
    yield (
        algorithm.needs_groups and size < 2 and config.preference.name == "none",
        f"{algorithm.name} compares the episodes of a group: rollout.group_size must be >= 2, got "
        f"{size}",
    )
    yield (
        normalisation == "group" and algorithm.reinforces and not algorithm.compares_groups,
        "advantage.normalisation group would make nothing of a group of equal rewards, from which "
        f"{algorithm.name} learns: it must be none or batch, or algorithm.name one of "
        f"{', '.join(names_comparing_groups())}; got 'group' and {algorithm.name!r}",
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


def _about_age(config: RunConfig, algorithm: Algorithm) -> Rules:
    correction, num_epochs = config.algorithm.correction, config.learner.num_epochs
    reinforces = algorithm.reinforces and config.preference.name == "none"
    has_no_ratio = reinforces and not algorithm.needs_old_logprobs
    yield (
        algorithm.corrects_itself and correction not in (AUTO, "none"),
        f"{algorithm.name} weighs tokens of older weights itself: algorithm.correction must be "
        f"auto or none, got {correction!r}",
    )
    yield (
        has_no_ratio and correction == "naive",
        "algorithm.correction naive is a ratio to the weights that emitted a token, and the loss "
        f"of {algorithm.name} has no ratio: it must be auto, decoupled, loglinear or none, got "
        "'naive'",
    )
    yield (
        has_no_ratio and num_epochs > 1,
        f"the loss of {algorithm.name} has no ratio to the policy before the step, which tokens "
        f"that are seen again need: learner.num_epochs must be 1, got {num_epochs}",
    )


def _about_weights(config: RunConfig, algorithm: Algorithm) -> Rules:
    del algorithm
    rules = config.algorithm
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


def _check_constants(config: RunConfig, algorithm: Algorithm) -> None:
    """Refuse constants that nothing in the run looks at."""
    for section, names, is_read, why in _constants(config, algorithm):
        if not is_read:
            refuse_unused(section, getattr(config, section), names, why)


def _constants(
    config: RunConfig, algorithm: Algorithm
) -> Iterator[tuple[str, Sequence[str], bool, str]]:
    """Yield section, fields, whether they are looked at, and why they would not be."""
    name, correction = algorithm.name, config.correction
    weighs = algorithm.reinforces and not algorithm.corrects_itself
    clips = algorithm.loss in (clipped_policy_loss, sequence_policy_loss)
    has_ratio, has_trace = algorithm.needs_old_logprobs, algorithm.along in (gae, vtrace)
    yield "algorithm", ("clip_low", "clip_high"), has_ratio, f"the loss of {name} has no ratio"
    yield "algorithm", ("dual_clip",), clips, f"{name} clips no surrogate"
    yield (
        "algorithm",
        ("weight_level", "max_weight", "min_weight", "on_larger_weight"),
        weighs and CORRECTIONS[correction].weighted,
        f"{name} with algorithm.correction {correction} has no importance weights",
    )
    yield (
        "algorithm",
        ("entropy_coefficient", "correction"),
        algorithm.reinforces,
        f"{name} imitates",
    )
    yield (
        "advantage",
        ("reward_scale", "reward_clip", "overlong_share", "normalisation", "discount"),
        algorithm.reinforces,
        f"{name} imitates, whatever the reward",
    )
    yield "advantage", ("trace_decay",), has_trace, f"{name} has no trace"
    yield "advantage", ("max_trace",), algorithm.along is vtrace, f"{name} has no V-trace"
    has_mean = algorithm.baseline is running_mean
    yield "advantage", ("baseline_decay",), has_mean, f"{name} has no running mean"
    yield "critic", ("lr_ratio", "value_clip"), algorithm.needs_critic, f"{name} has no critic"


def names_comparing_groups() -> list[str]:
    """Return the algorithms whose advantages are 0 in a group of equal rewards."""
    return [algorithm.name for algorithm in ALGORITHMS.values() if algorithm.compares_groups]


def _names_with_critic() -> list[str]:
    return [algorithm.name for algorithm in ALGORITHMS.values() if algorithm.needs_critic]
