"""A game as a taskset and an environment of verifiers v1."""

import importlib
import itertools
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

from earl_envs.end_reason import EndReason
from earl_envs.faces.episode import EpisodeKey
from earl_envs.faces.others import Others
from earl_envs.game import Game
from earl_envs.opponents.base import Opponent
from earl_envs.registry import make_game
from earl_envs.text.chat_env import ChatEnv

_MISSING = "verifiers is missing: pip install verifiers"


def verifiers_classes(
    game_id: str,
    *,
    opponent: str | Opponent | None = None,
    seat: int = 0,
    illegal: str = "forfeit",
    **params: Any,  # noqa: ANN401 - each game has its own
) -> tuple[type[Any], type[Any]]:
    """Return a taskset of a game, one task per seed without end, and the environment that plays it.

    The package that verifiers is told to load exports both in its `__all__`. Every seat is an agent
    `player_0`, `player_1`, ... of the environment's config, or with an `opponent` only `seat` is.
    An agent's reward is its score; its trace's `info` says how the game ended. An agent whose run
    stops, by a limit or an error, ends the game without a winner.

    Example:
        # me_last_stone/__init__.py
        LastStoneTaskset, LastStoneEnv = verifiers_classes("me/LastStone-v0")
        __all__ = ["LastStoneEnv", "LastStoneTaskset"]

    Raises:
        ImportError: If verifiers is not installed.
    """
    try:
        vf: Any = importlib.import_module("verifiers.v1")
    except ImportError as error:
        raise ImportError(_MISSING) from error
    game = make_game(game_id, **params)
    others = Others(game_id, game, opponent=opponent, seat=seat)
    return _taskset(vf, game_id, game), _environment(vf, game_id, others, illegal=illegal)


def _taskset(vf: Any, game_id: str, game: Game) -> type[Any]:  # noqa: ANN401 - a module
    class GameData(vf.TaskData):
        info: dict[str, int]

    class GameTask(vf.Task[GameData, vf.State, vf.TaskConfig]):
        pass

    class GameTaskset(vf.Taskset[GameTask, vf.TasksetConfig]):
        INFINITE = True

        def load(self) -> Iterator[GameTask]:
            for seed in itertools.count():
                data = GameData(
                    name=f"{game_id}#{seed}", system_prompt=game.rules(), info={"seed": seed}
                )
                yield GameTask(data, self.config.task)

    return GameTaskset


def _environment(vf: Any, game_id: str, others: Others, *, illegal: str) -> type[Any]:  # noqa: ANN401
    game = others.game
    roles = {seat: f"player_{seat}" for seat in range(game.num_seats) if not others.plays(seat)}

    class GameEnv(vf.Env[_config(vf, [*roles.values()])]):
        async def run(self, task: Any, agents: Any) -> None:  # noqa: ANN401 - verifiers' own
            key = EpisodeKey(seed=task.data.info["seed"], episode=0)
            chat = ChatEnv(game, illegal=illegal)
            chat.reset(seed=key.game_seed)
            rivals = Others(game_id, game, opponent=others.opponent, seat=others.seat)
            rivals.begin(key)
            talks: dict[int, Any] = {}
            async with AsyncExitStack() as stack:
                for seat, role in roles.items():
                    agent = getattr(agents, role)
                    talks[seat] = await stack.enter_async_context(agent.interaction(task))
                rivals.play(chat)
                while not chat.done:
                    await _ask(chat, talks[chat.seat])
                    rivals.play(chat)
            _report(chat, talks)

    return GameEnv


def _config(vf: Any, roles: list[str]) -> Any:  # noqa: ANN401 - a module and a class of it
    role = vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
    namespace = {
        **dict.fromkeys(roles, role),
        "__annotations__": dict.fromkeys(roles, vf.AgentConfig),
        "__module__": __name__,
    }
    return type("GameConfig", (vf.EnvConfig,), namespace)


async def _ask(chat: ChatEnv, talk: Any) -> None:  # noqa: ANN401 - a class of verifiers'
    segment = await talk.turn(chat.observation(chat.seat))
    if not segment.terminated:
        chat.step(segment.last_reply)
        return
    failed = bool(talk.trace.errors)
    reason = EndReason.OPPONENT_ERROR if failed else EndReason.MOVE_LIMIT
    chat.fail(reason, f"player_{chat.seat} stopped: {talk.trace.stop_condition}")


def _report(chat: ChatEnv, talks: dict[int, Any]) -> None:
    assert chat.returns is not None, "the game is over"
    for seat, talk in talks.items():
        talk.trace.record_reward("score", chat.returns[seat], 1.0)
        talk.trace.info |= {
            "seat": seat,
            "returns": list(chat.returns),
            "end_reason": str(chat.end_reason),
            "detail": chat.detail,
            "moves": list(chat.moves),
        }
