"""What rewards a run's episodes, from its config."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event

import torch
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from earl_trainer.config import RunConfig
from earl_trainer.models.int8 import quantise
from earl_trainer.models.vocabulary import vocabulary_digest
from earl_trainer.rewards.config import RewardConfig
from earl_trainer.rewards.function import parse_functions
from earl_trainer.rewards.generative_judge import DEFAULT_TEMPLATE, GenerativeJudge
from earl_trainer.rewards.judge import Judge
from earl_trainer.rewards.limits import RewardLimits
from earl_trainer.rewards.model import load_reward_model
from earl_trainer.rewards.model_scorer import OWN, ModelScorer, parse_models
from earl_trainer.rewards.own_model import OwnRewardModel
from earl_trainer.rewards.process import RewardProcess, RewardStartError
from earl_trainer.rewards.scored_collection import ScoredCollection
from earl_trainer.rewards.scorer import Scorer
from earl_trainer.rewards.service import RewardService
from earl_trainer.rollout.collection import Collection
from earl_trainer.types import RunFailedError

_CHECK_TIMEOUT_S = 120.0


def check_reward_functions(config: RewardConfig) -> None:
    """Refuse functions that cannot be imported or called, as a process of the service finds them.

    Raises:
        ValueError: With the function and what is wrong with it.
    """
    targets = [function.target for function in parse_functions(config.functions)]
    if not targets:
        return
    try:
        process = RewardProcess(
            targets, _limits(config), start_timeout_s=_CHECK_TIMEOUT_S, stop=Event()
        )
    except RewardStartError as error:
        raise ValueError(f"reward.functions: {error}") from error
    process.kill()


def check_reward_models(
    config: RewardConfig, policy: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Refuse folders of reward models that cannot be loaded, or read other tokens than the policy.

    Raises:
        ValueError: With the folder and what is wrong with it.
    """
    for folder in {named.folder for named in parse_models(config.models)} - {OWN}:
        model = load_reward_model(folder, device=torch.device("cpu"))
        _check_tokens(folder, model, policy)
        try:
            own_tokenizer = AutoTokenizer.from_pretrained(folder)
        except (OSError, ValueError) as error:
            first_line = next(iter(str(error).splitlines()), type(error).__name__)
            raise ValueError(
                f"the folder of a reward model holds its tokenizer, {folder!r} does not: "
                f"{first_line}"
            ) from error
        if vocabulary_digest(own_tokenizer) != vocabulary_digest(tokenizer):
            raise ValueError(
                "a reward model reads the tokens of the policy: reward.models must name one with "
                f"the same vocabulary, got {folder!r}"
            )


def _check_tokens(folder: str, model: PreTrainedModel, policy: PreTrainedModel) -> None:
    if model.config.vocab_size != policy.config.vocab_size:
        raise ValueError(
            f"a reward model reads the tokens of the policy: its vocabulary must have "
            f"{policy.config.vocab_size} of them, that of {folder!r} has "
            f"{model.config.vocab_size}"
        )


def make_judge(config: RunConfig) -> Judge | None:
    """Start the processes that compute a run's own rewards; None where it has no functions."""
    rules = config.reward
    functions = parse_functions(rules.functions)
    if not functions:
        return None
    service = RewardService(
        [function.target for function in functions],
        num_processes=rules.num_processes,
        limits=_limits(rules),
    )
    return Judge(
        service,
        functions,
        game_id=config.env,
        on_failure=rules.on_failure,
        timeout_s=config.dispatch.timeout_s,
    )


def score_episodes(
    config: RunConfig,
    games: Collection,
    *,
    own: OwnRewardModel,
    policy: PreTrainedModel,
    decode: Callable[[Sequence[int]], str],
) -> Collection:
    """Have the episodes of a collection scored by what the config names, if it names anything.

    Args:
        config: The run.
        games: Plays.
        own: The reward model that the run has learned.
        policy: Whose tokens the models read.
        decode: Turns tokens into text.

    Raises:
        RunFailedError: If a reward model cannot be loaded, or reads other tokens.
    """
    scorers: list[Scorer] = []
    if config.reward.models:
        scorers.append(_make_model_scorer(config, own, policy))
    if config.judge.url:
        scorers.append(_make_generative_judge(config, decode))
    if not scorers:
        return games
    return ScoredCollection(games, scorers, on_failure=config.reward.on_failure)


def _make_model_scorer(
    config: RunConfig, own: OwnRewardModel, policy: PreTrainedModel
) -> ModelScorer:
    rules, models = config.reward, list[tuple[PreTrainedModel, float]]()
    for named in parse_models(rules.models):
        try:
            model = (
                own.model
                if named.folder == OWN
                else load_reward_model(named.folder, device=policy.device)
            )
            _check_tokens(named.folder, model, policy)
        except ValueError as error:
            raise RunFailedError(str(error)) from error
        if rules.model_dtype == "int8":
            model = quantise(copy.deepcopy(model))
        models.append((model, named.weight))
    return ModelScorer(
        models,
        ensemble=rules.ensemble,
        doubt=rules.doubt,
        max_tokens=config.learner.max_microbatch_tokens,
    )


def _make_generative_judge(
    config: RunConfig, decode: Callable[[Sequence[int]], str]
) -> GenerativeJudge:
    rules = config.judge
    return GenerativeJudge(
        rules.url,
        model=rules.model,
        weight=rules.weight,
        template=Path(rules.template).read_text() if rules.template else DEFAULT_TEMPLATE,
        decode=decode,
        timeout_s=rules.timeout_s,
        max_concurrent=rules.max_concurrent,
    )


def _limits(config: RewardConfig) -> RewardLimits:
    return RewardLimits(wall_s=config.wall_s, cpu_s=config.cpu_s, memory_bytes=config.memory_bytes)
