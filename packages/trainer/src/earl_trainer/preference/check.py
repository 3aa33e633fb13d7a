"""Rules for learning from data: methods, data and the rest of a run have to fit."""

from dataclasses import fields

from earl_trainer.config import RunConfig
from earl_trainer.preference.config import PreferenceConfig
from earl_trainer.preference.methods import METHODS, Method, Source
from earl_trainer.unused import refuse_unused

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
    _check_idle_fields(config, method)
    _check_idle_guards(config, method)
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
    for field, has_it in (
        ("margin", method.name == "simpo"),
        ("label_smoothing", is_dpo),
        ("iterate_steps", method.source is Source.AGAINST_SELF),
        ("threshold", method.source in (Source.ACCEPTED, Source.JUDGED)),
        ("desirable_weight", method.source is Source.JUDGED),
        ("undesirable_weight", method.source is Source.JUDGED),
    ):
        if not has_it:
            refuse_unused("preference", rules, (field,), f"{method.name} has no {field}")


def _check_run(config: RunConfig, method: Method) -> None:
    for broken, field, needed, got in (
        (config.is_asynchronous, "generation and learning", "to take turns", "an asynchronous run"),
        (
            config.selector.prepare_on != "learner",
            "selector.prepare_on",
            "learner",
            config.selector.prepare_on,
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


def _check_idle_fields(config: RunConfig, method: Method) -> None:
    """Refuse values of what turns rewards into updates: nothing would look at them."""
    # Imitation, and so a warm-up, is added up as the algorithm's losses are.
    acting = {"aggregation"} if method.imitates or config.warmup.num_steps else set[str]()
    for section in ("algorithm", "advantage", "experience"):
        values = getattr(config, section)
        idle = [field.name for field in fields(values) if field.name not in acting]
        refuse_unused(section, values, idle, f"{method.name} does not learn from rewards")


def _check_idle_guards(config: RunConfig, method: Method) -> None:
    """Refuse guards whose figures a method does not have."""
    data = config.preference.data
    plays = not data and not method.is_taught(data)
    for field, idle, works, figure in (
        ("kl", ("off",), False, "the divergence of updates"),
        ("max_update_kl", (0.0,), False, "the divergence of updates"),
        ("normalise_rewards", ("off",), False, "advantages"),
        # Of the loss of tokens; a warning is what every run begins with.
        ("entropy", ("warn", "off"), method.imitates, "the entropy"),
        ("plateau", ("off",), plays, "rewards of its own games"),
        ("hacking", ("off",), plays, "rewards of its own games"),
    ):
        value = getattr(config.guards, field)
        if value not in idle and not works:
            raise ValueError(
                f"{method.name} does not tell {figure}: guards.{field} must be {idle[0]!r}, got "
                f"{value!r}"
            )
