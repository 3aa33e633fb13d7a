"""Rules for whoever plays besides the learner, checked before anything of a run is made."""

import operator

from earl_envs import (
    OPPONENTS,
    Failure,
    Game,
    Opponent,
    attempt,
    episode_rng,
    make_opponent,
    suggest,
)
from earl_envs.opponents.endpoint import EndpointOpponent
from earl_envs.opponents.perfect import PerfectOpponent
from earl_envs.opponents.pool import OpponentPool
from earl_envs.record import start_position

from earl_trainer.config import PAST_MODELS, SELF_PLAY, RunConfig
from earl_trainer.experience.curriculum_setup import levels_of
from earl_trainer.preference.methods import METHODS
from earl_trainer.unused import refuse_unused

_OWN = (SELF_PLAY, *PAST_MODELS)
_POOL = "pool"


def check_players(config: RunConfig, game: Game) -> None:
    """Refuse players that there are not, or that cannot play the game.

    Each of them makes one move from the start: as much work as any of its moves in the run.

    Raises:
        ValueError: With the rule and the value.
    """
    if config.opponent in _OWN:
        _check_own(config, game)
    else:
        _check_spec(config.opponent)
        _check_move(config.opponent, config, game)
    if config.evaluation.opponent in _OWN:
        raise ValueError(
            "evaluation.opponent must be none of the learner's own weights, so that matches of one "
            f"run can be compared: name one such as 'random', got {config.evaluation.opponent!r}"
        )
    _check_checkups(config, game)
    for level in levels_of(config.experience).values():
        _check_spec(level.opponent)
        _check_move(level.opponent, config, level.make_game(config.env))
    if config.match_opponent != config.opponent:
        _check_move(config.match_opponent, config, game)
    _check_move(config.warmup.player, config, game)
    method = METHODS.get(config.preference.name)
    if method is not None and method.is_taught(config.preference.data):
        _check_move(config.preference.player, config, game)


def _check_checkups(config: RunConfig, game: Game) -> None:
    rules = config.evaluation
    if not rules.every_steps:
        refuse_unused(
            "evaluation",
            rules,
            ("opponents", "past_selves", "optimum", "checkup_games"),
            "without evaluation.every_steps there are no checkups",
        )
        return
    if not rules.opponents:
        raise ValueError(
            "a checkup rates the weights against somebody: evaluation.opponents must name one such "
            f"as 'random', got {rules.opponents}"
        )
    if rules.checkup_games % game.num_seats:
        raise ValueError(
            f"evaluation.checkup_games must be a multiple of the game's {game.num_seats} seats, "
            f"got {rules.checkup_games}"
        )
    if rules.past_selves and game.num_seats < 2:
        raise ValueError(
            f"evaluation.past_selves needs a game of two seats or more, {config.env!r} has "
            f"num_seats = {game.num_seats}"
        )
    for spec in rules.opponents:
        _check_spec(spec)
        _check_move(spec, config, game)
    start = attempt(start_position, game, config.seed)
    if not rules.optimum or isinstance(start, Failure):
        return
    rng = episode_rng(config.seed, game_id=config.env, episode=0, seat=start.seat)
    best = attempt(PerfectOpponent().optimal_actions, game, start.state, start.seat, rng)
    if isinstance(best, Failure):
        raise ValueError(  # noqa: TRY004
            f"evaluation.optimum needs a game that can be solved, not {config.env!r}: {best.error}"
        )


def _check_own(config: RunConfig, game: Game) -> None:
    if game.num_seats < 2:
        raise ValueError(
            f"opponent {config.opponent!r} needs a game of two seats or more, {config.env!r} has "
            f"num_seats = {game.num_seats}"
        )
    every, num_steps = (
        config.tracking.checkpoint_every_steps,
        config.warmup.num_steps + config.learner.num_steps,
    )
    if config.opponent in PAST_MODELS and every >= num_steps:
        raise ValueError(
            f"opponent {config.opponent!r} meets checkpoints of the run: "
            f"tracking.checkpoint_every_steps must be less than its {num_steps} steps, got {every}"
        )


def _check_spec(spec: str) -> None:
    """Refuse a name that is near one of the run's own opponents with all names there are."""
    name, _, argument = spec.partition(":")
    first = argument.partition(",")[0].partition(":")[0]
    if name not in OPPONENTS or (name == _POOL and argument and first not in OPPONENTS):
        raise ValueError(suggest(spec, (*OPPONENTS, *_OWN), what="opponent"))


def _check_move(spec: str, config: RunConfig, game: Game) -> None:
    start = attempt(start_position, game, config.seed)
    if isinstance(start, Failure):
        return  # The game is at fault, and `check_context` says so.
    for player in _asked(make_opponent(spec)):
        rng = episode_rng(config.seed, game_id=config.env, episode=0, seat=start.seat)
        move = attempt(player.move, game, start.state, start.seat, rng)
        action = move if isinstance(move, Failure) else attempt(operator.index, move)
        if not isinstance(action, Failure) and action not in start.legal:
            action = Failure(error=f"its first move, action {action}, is not legal")
        if isinstance(action, Failure):
            raise ValueError(f"opponent {spec!r} cannot play {config.env!r}: {action.error}")  # noqa: TRY004


def _asked(player: Opponent) -> list[Opponent]:
    """Every member of a pool; nobody behind an endpoint, whose server may be up only later."""
    if isinstance(player, OpponentPool):
        return [asked for member in player.members for asked in _asked(member.opponent)]
    return [] if isinstance(player, EndpointOpponent) else [player]
