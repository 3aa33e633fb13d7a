"""Rules for what rewards episodes."""

from pathlib import Path

from earl_envs import make_game

from earl_trainer.config import RunConfig
from earl_trainer.rewards.function import parse_functions
from earl_trainer.rewards.generative_judge import CONVERSATION
from earl_trainer.rewards.model_scorer import OWN, parse_models
from earl_trainer.unused import refuse_unused


def check_rewards(config: RunConfig) -> None:
    """Refuse rewards that do not fit.

    Raises:
        ValueError: With the rule and the value.
    """
    rules, judge = config.reward, config.judge
    functions, models = parse_functions(rules.functions), parse_models(rules.models)
    weights = [each.weight for each in (*functions, *models)]
    if not rules.game_weight and not any(weights) and not (judge.url and judge.weight):
        raise ValueError(
            "something must be rewarded: reward.game_weight or the weight of a function, a model "
            f"or the judge must not be 0, got reward.functions {rules.functions}"
        )
    _check_models(config)
    _check_judge(config)
    if config.reward_model.num_steps:
        _check_learning(config)
    if config.model.reference_dtype == "int8" and config.selector.prepare_on == "ranks":
        raise ValueError(
            "ranks hold a reference as the model is: with selector.prepare_on ranks "
            "model.reference_dtype must be same, got 'int8'"
        )


def _check_models(config: RunConfig) -> None:
    if not config.reward.models:
        names = ("ensemble", "doubt", "model_dtype")
        refuse_unused("reward", config.reward, names, "there are no reward.models")
    if config.reward.ensemble != "mean-std":
        refuse_unused(
            "reward",
            config.reward,
            ("doubt",),
            f"reward.ensemble {config.reward.ensemble} doubts nothing",
        )
    folders = [model.folder for model in parse_models(config.reward.models)]
    for folder in folders:
        if folder == OWN and not config.reward_model.num_steps:
            raise ValueError(
                f"reward.models {OWN} is the model that the run learns: reward_model.num_steps "
                "must be >= 1, got 0"
            )
        if folder != OWN and not (Path(folder) / "config.json").is_file():
            raise ValueError(f"a reward model is a folder with a config.json, got {folder!r}")


def _check_judge(config: RunConfig) -> None:
    judge = config.judge
    if not judge.url:
        names = ("model", "weight", "template", "timeout_s", "max_concurrent")
        refuse_unused("judge", judge, names, "without judge.url nothing judges")
    if judge.url and not judge.url.startswith(("http://", "https://")):
        raise ValueError(
            f"judge.url must be an address such as http://host:8000/v1, got {judge.url!r}"
        )
    if judge.url and not judge.model:
        raise ValueError("judge.url needs the name of a model there: judge.model, got ''")
    if judge.template:
        path = Path(judge.template)
        if not path.is_file() or CONVERSATION not in path.read_text():
            raise ValueError(
                f"judge.template must be a text file with {CONVERSATION} in it, got "
                f"{judge.template!r}"
            )


def _check_learning(config: RunConfig) -> None:
    rules, longest = config.reward_model, 2 * config.rollout.max_context_tokens
    if longest > config.learner.max_microbatch_tokens:
        raise ValueError(
            "both sides of a pair are computed together: learner.max_microbatch_tokens must be at "
            f"least twice rollout.max_context_tokens, {longest}, got "
            f"{config.learner.max_microbatch_tokens}"
        )
    if config.selector.prepare_on != "learner":
        raise ValueError(
            "reward_model.num_steps needs selector.prepare_on learner, got "
            f"{config.selector.prepare_on!r}"
        )
    if not rules.data and config.rollout.group_size < 2:
        raise ValueError(
            "a reward model learns from pairs of a group: rollout.group_size must be >= 2, got "
            f"{config.rollout.group_size}"
        )
    seats = make_game(config.env).num_seats if config.self_play else 1
    if not rules.data and rules.num_episodes % (config.rollout.group_size * seats):
        times = f" times the {seats} seats of self-play" if config.self_play else ""
        raise ValueError(
            f"reward_model.num_episodes must be a multiple of rollout.group_size{times}, got "
            f"{rules.num_episodes} and {config.rollout.group_size}"
        )
