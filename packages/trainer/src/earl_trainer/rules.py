"""Rules between the fields of a config, and between a config and its model."""

from dataclasses import replace

from earl_envs import OPPONENTS, Game, TextProtocol, episode_rng, make_game, suggest
from transformers import PreTrainedModel

from earl_trainer.algorithms.table import ALGORITHMS
from earl_trainer.config import RunConfig
from earl_trainer.models.load import check_model_name
from earl_trainer.rollout.chat import ChatFormat


def check_config(config: RunConfig) -> None:
    """Refuse what needs no model to be refused.

    Raises:
        ValueError: With the rule and the value.
    """
    game = make_game(config.env)
    for name in (config.opponent, config.warmup.player):
        if name not in OPPONENTS:
            raise ValueError(suggest(name, OPPONENTS, what="opponent"))
    if config.algorithm.name not in ALGORITHMS:
        raise ValueError(suggest(config.algorithm.name, ALGORITHMS, what="algorithm"))
    check_model_name(config.model.name)
    _check_batch(config)
    num_games, num_seats = config.evaluation.num_games, game.num_seats
    if num_games % num_seats:
        raise ValueError(
            f"evaluation.num_games must be a multiple of the game's {num_seats} seats, "
            f"got {num_games}"
        )
    # Rotary position embedding turns pairs of a head's dimensions.
    if config.model.hidden_size % (2 * config.model.num_heads):
        raise ValueError(
            "model.hidden_size must be an even multiple of model.num_heads, got "
            f"{config.model.hidden_size} and {config.model.num_heads}"
        )


def check_resumable(saved: RunConfig, config: RunConfig) -> None:
    """Refuse to go on with a run whose past the new values would contradict.

    Raises:
        ValueError: Naming the field.
    """
    fixed = {
        "env": (saved.env, config.env),
        "seed": (saved.seed, config.seed),
        "model": (replace(saved.model, device=""), replace(config.model, device="")),
        "warmup": (saved.warmup, config.warmup),
    }
    for field, (before, after) in fixed.items():
        if before != after:
            raise ValueError(f"--resume keeps {field} as it was when the run began")


def _check_batch(config: RunConfig) -> None:
    rollout, algorithm = config.rollout, ALGORITHMS[config.algorithm.name]
    if rollout.num_episodes % rollout.group_size:
        raise ValueError(
            "rollout.num_episodes must be a multiple of rollout.group_size, got "
            f"{rollout.num_episodes} and {rollout.group_size}"
        )
    if algorithm.needs_groups and rollout.group_size < 2:
        raise ValueError(
            f"{algorithm.name} compares the episodes of a group: rollout.group_size must be >= 2, "
            f"got {rollout.group_size}"
        )
    for field, num_episodes in (
        ("rollout", rollout.num_episodes),
        ("warmup", config.warmup.num_episodes),
    ):
        if num_episodes < config.learner.num_minibatches:
            raise ValueError(
                f"{field}.num_episodes must be >= learner.num_minibatches, got {num_episodes} and "
                f"{config.learner.num_minibatches}"
            )


def check_context(config: RunConfig, game: Game, chat: ChatFormat, model: PreTrainedModel) -> None:
    """Refuse a context limit that one turn does not fit, or that the model was not made for.

    Raises:
        ValueError: With the rule and the numbers.
    """
    limit = config.rollout.max_context_tokens
    positions = model.config.max_position_embeddings
    if limit > positions:
        raise ValueError(
            f"rollout.max_context_tokens must be at most the model's {positions} positions, "
            f"got {limit}"
        )
    window = model.config.to_dict().get("sliding_window")
    if window is not None and limit > window:
        raise ValueError(
            f"rollout.max_context_tokens must be at most the model's attention window of {window} "
            f"tokens, which the engine's cache does not slide, got {limit}"
        )
    protocol = TextProtocol(game)
    state = game.initial(episode_rng(config.seed, game_id=config.env, episode=0, seat=0))
    message = protocol.turn_message(state, game.seat(state))
    prompt_tokens = len(chat.start(protocol.system_message(), message).prompt_ids)
    needed = prompt_tokens + config.rollout.max_reply_tokens
    if limit < needed:
        raise ValueError(
            f"rollout.max_context_tokens must hold one turn: a prompt of {prompt_tokens} tokens "
            f"and a reply of {config.rollout.max_reply_tokens} need {needed}, got {limit}"
        )
