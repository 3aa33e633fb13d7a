"""Checks of a game as environments of Gymnasium and PettingZoo, mostly by their own checkers."""

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from typing import Any, final

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import (
    api_test,
    parallel_api_test,
    parallel_seed_test,
    render_test,
    seed_test,
)

from earl_envs.boundary import Failure, attempt
from earl_envs.end_reason import FORFEITS, EndReason
from earl_envs.faces.pettingzoo_env import pettingzoo_env, pettingzoo_parallel_env
from earl_envs.faces.registration import register_with_frameworks, text_id
from earl_envs.game import Game, State
from earl_envs.position import Position
from earl_envs.record import GameRecord
from earl_envs.registry import FAMILIES
from earl_envs.testing.chat import GARBAGE
from earl_envs.testing.context import Context
from earl_envs.testing.finding import Finding
from earl_envs.testing.playthrough import locate
from earl_envs.text.protocol import TextProtocol

_NUM_CYCLES = 50
_MAX_STEPS = 200

Env = Any  # Gymnasium's, with the `record` of this package's
Act = Callable[[Position], object]
"""Chooses what to do in a position."""


def gymnasium_env(context: Context) -> Iterator[Finding]:
    """`gymnasium.make(id)` passes `check_env` and plays whole games, from every seat."""
    rng = context.rng("gymnasium_env")

    def play(position: Position) -> int:
        return int(rng.choice(position.legal)) if position.legal else 0

    def foul(position: Position) -> int | None:
        legal = set(position.legal)
        return next((a for a in range(context.game.num_actions) if a not in legal), None)

    yield from _check_gymnasium(context, context.game_id, play, foul)


def gymnasium_text_env(context: Context) -> Iterator[Finding]:
    """`gymnasium.make(text id)` passes `check_env` and plays whole games, from every seat."""
    protocol, rng = TextProtocol(context.game), context.rng("gymnasium_text_env")

    def reply(position: Position) -> str:
        if not position.legal:
            return GARBAGE
        return protocol.format_move(position.state, int(rng.choice(position.legal)))

    yield from _check_gymnasium(context, text_id(context.game_id), reply, lambda _: GARBAGE)


def opponent_failure(context: Context) -> Iterator[Finding]:
    """An opponent that raises ends the episode with reward 0: nobody has won."""
    make_known(context)
    for seat in range(context.game.num_seats):
        made = gymnasium.make(context.game_id, opponent=_Raises(), seat=seat, **context.params)
        env: Env = made.unwrapped
        env.reset(seed=context.seed)
        for _ in range(_MAX_STEPS):
            action = next(iter(_position(env).legal), 0)
            _, reward, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                break
        else:
            yield _no_end(f"seat {seat}")
            continue
        if info["end_reason"] == EndReason.FINISHED:  # before the opponent had a turn
            continue
        if reward or terminated or info["end_reason"] != EndReason.OPPONENT_ERROR:
            yield locate_env(
                context,
                env,
                f"an opponent that raises must truncate the game of seat {seat} with reward 0 and "
                f"{EndReason.OPPONENT_ERROR}, got {reward} and {info['end_reason']}",
            )


@final
class _Raises:
    """An opponent that fails at its first move."""

    def move(self, game: Game[State], state: State, seat: int, rng: np.random.Generator) -> int:
        raise RuntimeError("on purpose")


def pettingzoo_aec(context: Context) -> Iterator[Finding]:
    """`pettingzoo_env(id)` passes `api_test`, `seed_test` and `render_test`."""

    def make(**options: Any) -> Any:  # noqa: ANN401 - PettingZoo's checkers pass what they like
        return pettingzoo_env(context.game_id, **options, **context.params)

    yield from _official("api_test", api_test, make(), _NUM_CYCLES)
    yield from _official("seed_test", seed_test, make, _NUM_CYCLES)
    yield from _official("render_test", render_test, make)


def pettingzoo_parallel(context: Context) -> Iterator[Finding]:
    """`pettingzoo_parallel_env(id)` passes `parallel_api_test` and `parallel_seed_test`."""

    def make() -> Any:  # noqa: ANN401 - opaque to the checkers
        return pettingzoo_parallel_env(context.game_id, **context.params)

    yield from _official("parallel_api_test", parallel_api_test, make(), _NUM_CYCLES)
    yield from _official("parallel_seed_test", parallel_seed_test, make, _NUM_CYCLES)


def make_known(context: Context) -> None:
    """Register a game of another library, which Gymnasium does not list before it is asked for."""
    if context.game_id.partition("/")[0] in FAMILIES:
        register_with_frameworks(context.game_id)


def locate_env(context: Context, env: Env, wrong: str) -> Finding:
    """Return what is wrong with an environment in its present position."""
    record: GameRecord = env.record()
    return locate(context.game, record.seed, tuple(record.moves), _position(env).state, wrong)


def _check_gymnasium(context: Context, env_id: str, act: Act, foul: Act) -> Iterator[Finding]:
    make_known(context)
    for seat in range(context.game.num_seats):
        made = attempt(gymnasium.make, env_id, seat=seat, **context.params)
        if isinstance(made, Failure):
            yield Finding(wrong=f"gymnasium.make({env_id!r}, seat={seat}) raises {made.error}")
            return
        env: Env = made.unwrapped
        yield from _official(f"check_env of {env_id} in seat {seat}", check_env, env)
        yield from _played(context, env, seat, act)
        yield from _fouled(context, env, seat, foul)


def _played(context: Context, env: Env, seat: int, act: Act) -> Iterator[Finding]:
    """Legal moves bring a game to its end and the agent the score of its seat."""
    env.reset(seed=context.seed)
    for _ in range(_MAX_STEPS):
        _, reward, terminated, truncated, info = env.step(act(_position(env)))
        if not (terminated or truncated):
            continue
        returns = _position(env).returns
        if truncated or info["end_reason"] != EndReason.FINISHED or returns is None:
            yield locate_env(
                context, env, f"a game of legal moves ended as {info['end_reason']}: {info}"
            )
        elif reward != returns[seat] or tuple(info["returns"]) != returns:
            yield locate_env(context, env, f"seat {seat} of {returns} was rewarded with {reward}")
        if not isinstance(attempt(env.step, act(_position(env))), Failure):
            yield locate_env(context, env, "a finished environment must refuse to step")
        return
    yield _no_end(f"seat {seat}")


def _fouled(context: Context, env: Env, seat: int, foul: Act) -> Iterator[Finding]:
    """An illegal move ends the game and costs what a forfeit does."""
    env.reset(seed=context.seed)
    position = _position(env)
    action = foul(position)
    if position.returns is not None or action is None:
        return
    _, reward, terminated, _, info = env.step(action)
    floor = context.game.forfeit(seat)[seat]
    if not terminated or reward != floor or info["end_reason"] not in FORFEITS:
        yield locate_env(
            context,
            env,
            f"the illegal action {action!r} of seat {seat} must end the game with {floor}, "
            f"got {reward} and {info.get('end_reason')}",
        )


def _official(name: str, check: Callable[..., object], *args: object) -> Iterator[Finding]:
    def run() -> None:
        # They print that all is well, and warn of what no game can help, such as "all zeros".
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            check(*args)

    result = attempt(run)
    if isinstance(result, Failure):
        yield Finding(wrong=f"{name}: {result.error}")


def _no_end(played: str) -> Finding:
    wrong = f"not decided: {played} reached no end within {_MAX_STEPS} steps"
    return Finding(wrong=wrong, is_note=True)


def _position(env: Env) -> Position:
    return env.record().positions()[-1]
