"""Rules between the fields of a config, and between a config and its model."""

from earl_envs import (
    Failure,
    Game,
    TextProtocol,
    attempt,
    episode_rng,
    make_game,
)
from transformers import PreTrainedModel

from earl_trainer.algorithms.check import check_algorithm
from earl_trainer.asynchronous.check import check_asynchronous
from earl_trainer.config import RunConfig
from earl_trainer.experience.check import check_experience
from earl_trainer.guards.setup import check_guards
from earl_trainer.models.load import check_model_name
from earl_trainer.overrides import flatten, to_tree
from earl_trainer.players import check_players
from earl_trainer.preference.check import check_preference
from earl_trainer.rewards.check import check_rewards
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.limits import context_share
from earl_trainer.serving.check import check_servers


def check_config(config: RunConfig) -> None:
    """Refuse what needs no model to be refused.

    Raises:
        ValueError: With the rule and the value.
    """
    game = make_game(config.env)
    check_algorithm(config)
    check_model_name(config.model.name)
    check_rewards(config)
    check_preference(config)
    check_guards(config)
    check_experience(config)
    if config.rollout.max_context_tokens > config.learner.max_microbatch_tokens:
        raise ValueError(
            "a sequence is computed in one piece: learner.max_microbatch_tokens must be at least "
            f"rollout.max_context_tokens = {config.rollout.max_context_tokens}, got "
            f"{config.learner.max_microbatch_tokens}"
        )
    num_games, num_seats = config.evaluation.num_games, game.num_seats
    _check_batch(config, num_seats=num_seats)
    _check_ranks(config)
    _check_policy(config)
    if config.is_asynchronous:
        check_asynchronous(config, num_seats=num_seats)
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
    # Last, as a search takes its time to make a move.
    check_players(config, game)
    check_servers(config)


def _check_ranks(config: RunConfig) -> None:
    rules, engine = config.selector, config.rollout.engine
    if rules.prepare_on == "ranks" and (rules.num_devices == 1 or engine != "transformers"):
        raise ValueError(
            "selector.prepare_on ranks needs several ranks of the engine transformers, got "
            f"selector.num_devices = {rules.num_devices} and rollout.engine = {engine!r}"
        )
    if rules.num_devices > 1 and config.rollout_workers > 1:
        raise ValueError(
            "a run has several workers that play or several ranks that generate, not both: "
            f"rollout_workers and selector.num_devices are {config.rollout_workers} and "
            f"{rules.num_devices}, one of them must be 1"
        )
    if engine == "vllm" and rules.num_devices > 1 and rules.deployment != "single":
        raise ValueError(
            "vLLM runs as one engine: rollout.engine vllm with several ranks needs "
            f"selector.deployment single, got {rules.deployment!r}"
        )
    if engine == "vllm" and rules.on_drift == "refuse":
        raise ValueError(
            "vLLM does not take a switch back: with rollout.engine vllm selector.on_drift must be "
            "flag, got 'refuse'"
        )
    if engine == "vllm" and config.rollout_workers > 1:
        raise ValueError(
            "vLLM spreads over processes of its own: with rollout.engine vllm rollout_workers must "
            f"be 1, got {config.rollout_workers}"
        )


def _check_policy(config: RunConfig) -> None:
    policy, degrees = config.selector.policy, config.selector.tp_degrees
    if policy in {"fixed", "throttle"} and len(degrees) > 1:
        raise ValueError(
            f"selector.policy {policy} keeps one degree: selector.tp_degrees must name one, got "
            f"{degrees}"
        )
    if policy == "earl" and len(degrees) == 1:
        raise ValueError(
            "selector.policy earl chooses a degree: selector.tp_degrees must name several, got "
            f"{degrees}"
        )
    rules = config.asynchronous
    for broken, needed, got in (
        (
            config.is_asynchronous,
            "max_staleness 0, an asynchronous.bound other than none and asynchronous.always False",
            f"{config.max_staleness}, {rules.bound} and {rules.always}",
        ),
        (config.rollout.overflow != "queue", "rollout.overflow queue", config.rollout.overflow),
        (config.rollout_workers > 1, "rollout_workers 1", config.rollout_workers),
    ):
        if policy == "throttle" and broken:
            raise ValueError(f"selector.policy throttle needs {needed}, got {got}")


# What may change when a run goes on: its length and speed, and where it runs and reports. Anything
# else would contradict the steps and matches that are already there.
_RESUMABLE = frozenset({
    "rollout_workers",
    "learner_workers",
    "max_staleness",
    "rollout.engine",
    "rollout.servers",
    "rollout.server_kind",
    "rollout.weights_dir",
    "model.device",
    "learner.num_steps",
    "learner.lr",
    "learner.lr_warmup_steps",
    "learner.num_minibatches",
    "learner.num_epochs",
    "learner.max_microbatch_tokens",
    "learner.packing",
    "learner.max_grad_norm",
    "reward.num_processes",
    "reward.wall_s",
    "reward.cpu_s",
    "reward.memory_bytes",
})
_RESUMABLE_GROUPS = ("asynchronous.", "dispatch.", "guards.", "selector.", "tracking.")


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
    rollout = config.rollout
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
    warmup_episodes = (
        config.warmup.num_episodes if config.warmup.num_steps else rollout.num_episodes
    )
    num_tables = min(rollout.num_episodes, warmup_episodes) // seats
    if config.rollout_workers > num_tables:
        raise ValueError(
            f"every worker plays a table of each step: rollout_workers must be at most the "
            f"{num_tables} tables of the smallest step, got {config.rollout_workers}"
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


def _first_turns(config: RunConfig, game: Game, chat: ChatFormat) -> tuple[int, int]:
    """Tokens of the first prompt, and those that a turn with the shortest reply adds to it."""
    protocol = TextProtocol(game)
    state = game.initial(episode_rng(config.seed, game_id=config.env, episode=0, seat=0))
    message = protocol.turn_message(state, game.seat(state))
    first = chat.start(protocol.system_message(), message)
    replies = [chat.encode_reply(protocol.format_move(state, a)) for a in game.legal(state)]
    second = chat.extend(first, min(replies, key=len), message)
    return len(first.prompt_ids), len(second.prompt_ids) - len(first.prompt_ids)


def expected_context_tokens(config: RunConfig, game: Game, chat: ChatFormat) -> int:
    """Return what the context of one game of full length takes, or the limit if that is less."""
    limit = config.rollout.max_context_tokens
    tokens = attempt(_first_turns, config, game, chat)
    if isinstance(tokens, Failure):
        return limit  # `check_context` says so.
    prompt_tokens, turn_tokens = tokens
    later_turns = -(-game.max_moves // game.num_seats) - 1
    whole = prompt_tokens + later_turns * turn_tokens + config.rollout.max_reply_tokens
    return min(limit, whole)


def check_context(
    config: RunConfig,
    game: Game,
    chat: ChatFormat,
    model: PreTrainedModel,
    *,
    capacity_tokens: int | None = None,
) -> str | None:
    """Refuse a context limit that one turn does not fit, or that the model was not made for.

    Args:
        config: The run.
        game: Its rules.
        chat: Renders its conversations.
        model: Of the learner.
        capacity_tokens: What the smallest degree that may be used holds; None if nobody plays.

    Returns:
        A note if the longest games of an episode of several do not fit.

    Raises:
        ValueError: With the rule and the numbers.
    """
    limit = config.rollout.max_context_tokens
    positions: int | None = getattr(model.config, "max_position_embeddings", None)
    if positions is None:
        raise ValueError(
            "a model says by max_position_embeddings how long a context it was made for, "
            f"{config.model.name!r} does not"
        )
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
    tokens = attempt(_first_turns, config, game, chat)
    if isinstance(tokens, Failure):
        raise ValueError(  # noqa: TRY004 - what failed is the game, not a type
            f"the game {config.env!r} fails at its first turn: {tokens.error}"
        )
    prompt_tokens, turn_tokens = tokens
    needed = prompt_tokens + config.rollout.max_reply_tokens
    if limit < needed:
        raise ValueError(
            f"rollout.max_context_tokens must hold one turn: a prompt of {prompt_tokens} tokens "
            f"and a reply of {config.rollout.max_reply_tokens} need {needed}, got {limit}"
        )
    if capacity_tokens is not None:
        _check_share(config, needed_tokens=needed, capacity_tokens=capacity_tokens)
    return _longest_games_note(config, game, prompt_tokens, turn_tokens)


def _check_share(config: RunConfig, *, needed_tokens: int, capacity_tokens: int) -> None:
    for field, num_episodes in (
        ("rollout", config.rollout.num_episodes),
        ("warmup", config.warmup.num_episodes if config.warmup.num_steps else 1),
    ):
        share = context_share(config, capacity_tokens=capacity_tokens, num_episodes=num_episodes)
        if share is not None and share < needed_tokens:
            raise ValueError(
                "with rollout.overflow cut, an equal share of the memory must hold one turn of "
                f"{needed_tokens} tokens: the {capacity_tokens:,} tokens of "
                f"selector.memory_bytes = {config.selector.memory_bytes:,} leave {share} to each "
                f"of {field}.num_episodes = {num_episodes}"
            )


def _longest_games_note(
    config: RunConfig, game: Game, prompt_tokens: int, turn_tokens: int
) -> str | None:
    """Say that the longest games do not fit; most games may be shorter, so it is no refusal."""
    limit, num_games = config.rollout.max_context_tokens, config.rollout.games_per_episode
    num_turns = num_games * -(-game.max_moves // game.num_seats)
    needed = prompt_tokens + (num_turns - 1) * turn_tokens
    if num_games == 1 or needed <= limit:
        return None
    return (
        f"{num_games} games of {game.max_moves} moves take about {needed:,} tokens, more than "
        f"rollout.max_context_tokens = {limit:,}: episodes of games that long are cut"
    )
