"""Rules between the fields of a config, and between a config and its model."""

from earl_envs import (
    Failure,
    Game,
    TextProtocol,
    attempt,
    episode_rng,
    make_game,
    suggest,
)
from earl_envs.opponents.base import check_opponent
from transformers import PreTrainedModel

from earl_trainer.algorithms.table import ALGORITHMS
from earl_trainer.config import PAST_MODELS, SELF_PLAY, RunConfig
from earl_trainer.models.load import check_model_name
from earl_trainer.overrides import flatten, to_tree
from earl_trainer.rollout.chat import ChatFormat


def check_config(config: RunConfig) -> None:
    """Refuse what needs no model to be refused.

    Raises:
        ValueError: With the rule and the value.
    """
    game = make_game(config.env)
    if config.opponent not in (SELF_PLAY, *PAST_MODELS):
        check_opponent(config.opponent)
    check_opponent(config.match_opponent)
    check_opponent(config.warmup.player)
    if config.algorithm.name not in ALGORITHMS:
        raise ValueError(suggest(config.algorithm.name, ALGORITHMS, what="algorithm"))
    if config.algorithm.kl_coefficient and not ALGORITHMS[config.algorithm.name].needs_old_logprobs:
        raise ValueError(
            f"the loss of {config.algorithm.name} has no KL term: algorithm.kl_coefficient must be "
            f"0, got {config.algorithm.kl_coefficient}"
        )
    check_model_name(config.model.name)
    num_games, num_seats = config.evaluation.num_games, game.num_seats
    _check_batch(config, num_seats=num_seats)
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


# What may change when a run goes on: its length and speed, and where it runs and reports. Anything
# else would contradict the steps and matches that are already there.
_RESUMABLE = frozenset({
    "model.device",
    "learner.num_steps",
    "learner.lr",
    "learner.lr_warmup_steps",
    "learner.num_minibatches",
    "learner.num_epochs",
    "learner.max_microbatch_tokens",
    "learner.max_grad_norm",
})
_RESUMABLE_GROUPS = ("selector.", "tracking.")


def check_resumable(saved: RunConfig, config: RunConfig) -> None:
    """Refuse to go on with a run whose past the new values would contradict.

    Raises:
        ValueError: Naming the field and both values.
    """
    before, after = flatten(to_tree(saved)), flatten(to_tree(config))
    for name, value in before.items():
        if name in _RESUMABLE or name.startswith(_RESUMABLE_GROUPS):
            continue
        if after[name] != value:
            raise ValueError(f"--resume keeps {name} at {value!r}, got {after[name]!r}")


def _check_batch(config: RunConfig, *, num_seats: int) -> None:
    rollout, algorithm = config.rollout, ALGORITHMS[config.algorithm.name]
    seats = num_seats if config.self_play else 1
    if rollout.num_episodes % (rollout.group_size * seats):
        times = f" times the {seats} seats of self-play" if config.self_play else ""
        raise ValueError(
            f"rollout.num_episodes must be a multiple of rollout.group_size{times}, got "
            f"{rollout.num_episodes} and {rollout.group_size}"
        )
    if config.warmup.num_episodes % seats:
        raise ValueError(
            f"warmup.num_episodes must be a multiple of the {seats} seats of self-play, got "
            f"{config.warmup.num_episodes}"
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


def _first_prompt(config: RunConfig, game: Game, chat: ChatFormat) -> tuple[int, ...]:
    protocol = TextProtocol(game)
    state = game.initial(episode_rng(config.seed, game_id=config.env, episode=0, seat=0))
    message = protocol.turn_message(state, game.seat(state))
    return chat.start(protocol.system_message(), message).prompt_ids


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
    prompt = attempt(_first_prompt, config, game, chat)
    if isinstance(prompt, Failure):
        raise ValueError(  # noqa: TRY004 - what failed is the game, not a type
            f"the game {config.env!r} fails at its first turn: {prompt.error}"
        )
    prompt_tokens = len(prompt)
    needed = prompt_tokens + config.rollout.max_reply_tokens
    if limit < needed:
        raise ValueError(
            f"rollout.max_context_tokens must hold one turn: a prompt of {prompt_tokens} tokens "
            f"and a reply of {config.rollout.max_reply_tokens} need {needed}, got {limit}"
        )
