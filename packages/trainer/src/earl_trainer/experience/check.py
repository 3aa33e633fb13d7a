"""Rules of a run's filters, replay and curriculum."""

from pathlib import Path

from transformers import PreTrainedTokenizerBase

from earl_trainer.algorithms.check import names_comparing_groups
from earl_trainer.algorithms.table import ALGORITHMS
from earl_trainer.config import RunConfig
from earl_trainer.experience.config import ExperienceConfig
from earl_trainer.experience.curriculum_setup import check_curriculum
from earl_trainer.experience.filter_setup import run_filters
from earl_trainer.experience.mixing import rows_origin
from earl_trainer.experience.replay import read_origin, read_rows
from earl_trainer.unused import refuse_unused


def check_experience(config: RunConfig) -> None:
    """Refuse what cannot be drawn, kept or told apart.

    Raises:
        ValueError: With the rule and the value.
    """
    check_curriculum(config)
    _check_filters(config)
    _check_unused(config.experience)
    if config.experience.reuses:
        _check_reuse(config)


def _check_unused(rules: ExperienceConfig) -> None:
    if rules.replay_share == 0.0:
        names = ("replay", "replay_rows", "replay_bytes", "replay_max_staleness")
        refuse_unused("experience", rules, names, "without experience.replay_share nothing is kept")
    if rules.replay == "fifo":
        names = ("priority_exponent", "importance_exponent")
        refuse_unused("experience", rules, names, "experience.replay fifo draws all rows alike")


def _check_filters(config: RunConfig) -> None:
    rules, names = config.experience, run_filters(config)[0].names
    if len(set(names)) < len(names):
        raise ValueError(f"experience.filters names each filter once, got {names}")
    bounds = f"experience.min_tokens = {rules.min_tokens}, max_tokens = {rules.max_tokens}"
    if ("length" in names) != bool(rules.min_tokens or rules.max_tokens):
        raise ValueError(
            "the filter length and its bounds need one another: experience.filters is "
            f"{names}, {bounds}"
        )
    if 0 < rules.max_tokens < rules.min_tokens:
        raise ValueError(f"no episode is as long as it must be, got {bounds}")
    if "zero-variance" in names and config.rollout.group_size < 2:
        raise ValueError(
            "rewards of one episode never vary: the filter zero-variance needs rollout.group_size "
            f">= 2, got {config.rollout.group_size}"
        )
    name = config.algorithm.name
    if "zero-variance" in names and not ALGORITHMS[name].compares_groups:
        raise ValueError(
            f"the filter zero-variance drops groups of equal rewards, from which {name} learns: "
            f"algorithm.name must be one of {', '.join(names_comparing_groups())}, got {name!r}"
        )
    if (rules.max_rounds or 1) > 1 and not names:
        raise ValueError(
            "groups are played again that filters have dropped: experience.max_rounds needs "
            f"experience.filters, got {rules.max_rounds} and none"
        )


def _check_reuse(config: RunConfig) -> None:
    rules = config.experience
    if rules.replay_share + rules.offline_share >= 1.0:
        raise ValueError(
            "some rows of a step are its own: experience.replay_share + experience.offline_share "
            f"must be < 1, got {rules.replay_share} and {rules.offline_share}"
        )
    algorithm = ALGORITHMS[config.algorithm.name]
    if algorithm.corrects_itself:
        raise ValueError(
            f"{algorithm.name} accounts for older weights when rows are played, and not when they "
            "are drawn again: experience.replay_share and experience.offline_share must be 0, got "
            f"{rules.replay_share} and {rules.offline_share}"
        )
    if config.correction == "none":
        raise ValueError(
            "rows of older weights need a correction: algorithm.correction must not be none with "
            f"experience.replay_share = {rules.replay_share} and experience.offline_share = "
            f"{rules.offline_share}"
        )
    for field, value, needed, why in (
        ("rollout_workers", config.rollout_workers, 1, "one process keeps the rows"),
        ("selector.prepare_on", config.selector.prepare_on, "learner", "rows are prepared twice"),
    ):
        if value != needed:
            raise ValueError(
                f"experience.replay_share and offline_share need {field} = {needed}, as {why}; "
                f"got {value}"
            )
    if bool(rules.offline_path) != bool(rules.offline_share):
        raise ValueError(
            "experience.offline_path and experience.offline_share need one another, got "
            f"{rules.offline_path!r} and {rules.offline_share}"
        )
    if rules.offline_path:
        _check_offline(config)


def _check_offline(config: RunConfig) -> None:
    path, max_tokens = config.experience.offline_path, config.learner.max_microbatch_tokens
    try:
        rows, origin = read_rows(Path(path)), read_origin(Path(path))
    except FileNotFoundError:
        raise ValueError(f"there is no file experience.offline_path = {path!r}") from None
    if origin.get("game") != config.env:
        raise ValueError(
            f"offline rows are of the run's own game: experience.offline_path must be of "
            f"{config.env}, got one of {origin.get('game', 'an unknown game')}"
        )
    if ALGORITHMS[config.algorithm.name].needs_critic and "returns" not in rows.per_token:
        raise ValueError(
            f"a critic learns from returns: with algorithm.name {config.algorithm.name} "
            f"experience.offline_path must be of a run with a critic, got {path!r}"
        )
    longest = int(rows.lengths.max())
    if longest > max_tokens:
        raise ValueError(
            "a sequence is computed in one piece: the longest row of experience.offline_path must "
            f"have at most learner.max_microbatch_tokens = {max_tokens} tokens, got {longest}"
        )


def check_offline_tokens(config: RunConfig, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse offline rows whose tokens mean something else to the run's model.

    Raises:
        ValueError: With the rule and the file.
    """
    path = config.experience.offline_path
    own = rows_origin(config.env, tokenizer)
    if path and read_origin(Path(path)).get("vocabulary") != own["vocabulary"]:
        raise ValueError(
            "offline rows have the tokens of the run's model: experience.offline_path must be of a "
            f"run with the same vocabulary, got {path!r}"
        )
