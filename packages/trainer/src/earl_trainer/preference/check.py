"""Rules for learning from data: methods, data and the rest of a run have to fit."""

from earl_trainer.config import RunConfig
from earl_trainer.preference.config import PreferenceConfig
from earl_trainer.preference.methods import METHODS, Method, Source

_PAIRS = (Source.PAIRS, Source.AGAINST_SELF)


def check_preference(config: RunConfig) -> None:
    """Refuse what does not fit the method.

    Raises:
        ValueError: With the rule and the value.
    """
    rules = config.preference
    method = METHODS.get(rules.name)
    if method is None:
        if rules.data:
            raise ValueError(
                f"{config.algorithm.name} learns from episodes and not from data: preference.data "
                f"needs a preference.name, one of {', '.join(METHODS)}, got {rules.data!r}"
            )
        return
    _check_constants(rules, method)
    _check_run(config, method)
    if method.source is Source.ACCEPTED and rules.data:
        raise ValueError(
            f"{method.name} learns from the policy's own games: preference.data must be empty, got "
            f"{rules.data!r}"
        )
    if method.source is Source.PAIRS and not rules.data and config.rollout.group_size < 2:
        raise ValueError(
            f"{method.name} pairs the episodes of a group: rollout.group_size must be >= 2, got "
            f"{config.rollout.group_size}"
        )


def _check_constants(rules: PreferenceConfig, method: Method) -> None:
    """Refuse constants that the method does not have."""
    is_dpo = METHODS["dpo"].loss is method.loss
    for field, default, has_it in (
        ("margin", 0.0, method.name == "simpo"),
        ("label_smoothing", 0.0, is_dpo),
        ("threshold", 0.0, method.source in (Source.ACCEPTED, Source.JUDGED)),
        ("desirable_weight", 1.0, method.source is Source.JUDGED),
        ("undesirable_weight", 1.0, method.source is Source.JUDGED),
    ):
        value = getattr(rules, field)
        if value != default and not has_it:
            raise ValueError(
                f"{method.name} has no {field}: preference.{field} must be {default}, got {value}"
            )


def _check_run(config: RunConfig, method: Method) -> None:
    for broken, field, needed, got in (
        (config.is_asynchronous, "generation and learning", "to take turns", "an asynchronous run"),
        (
            config.selector.prepare_on != "learner",
            "selector.prepare_on",
            "learner",
            config.selector.prepare_on,
        ),
        (
            config.algorithm.kl_coefficient != 0.0,
            "algorithm.kl_coefficient",
            "0",
            config.algorithm.kl_coefficient,
        ),
    ):
        if broken:
            raise ValueError(f"{method.name} needs {field} {needed}, got {got}")
    longest = 2 * config.rollout.max_context_tokens
    if method.source in _PAIRS and longest > config.learner.max_microbatch_tokens:
        raise ValueError(
            "both answers of a pair are computed together: learner.max_microbatch_tokens must be "
            f"at least twice rollout.max_context_tokens, {longest}, got "
            f"{config.learner.max_microbatch_tokens}"
        )
