"""A game as an OpenEnv environment, for its servers and clients."""

import importlib
from collections.abc import Callable
from typing import Any

from earl_envs.faces.gymnasium_text_env import GameTextEnv
from earl_envs.faces.options import check_options
from earl_envs.opponents.base import Opponent

_MISSING = "OpenEnv is missing: pip install openenv"


def openenv_classes(
    game_id: str,
    *,
    opponent: str | Opponent | None = "random",
    seat: int = 0,
    illegal: str = "forfeit",
    **params: Any,  # noqa: ANN401 - each game has its own
) -> tuple[type[Any], type[Any], type[Any]]:
    """Return an OpenEnv environment of a game, with its classes of actions and observations.

    It is the `GameTextEnv` of these arguments. An action has the `message` of the player; an
    observation has the `message` to it, with `done`, `reward`, and in `metadata` what the info of
    the text environment says. A finished episode refuses steps, which OpenEnv's server does not do.
    Rewards of zero-sum games lie in [-1, 1]: say so as `validation.reward.range` in `openenv.yaml`.

    Example:
        environment, action, observation = openenv_classes("earl/TicTacToe-v0")
        app = create_fastapi_app(environment, action, observation, max_concurrent_envs=64)

    Raises:
        ImportError: If OpenEnv is not installed.
    """
    try:
        types: Any = importlib.import_module("openenv.core.env_server.types")
        interfaces: Any = importlib.import_module("openenv.core.env_server.interfaces")
    except ImportError as error:
        raise ImportError(_MISSING) from error

    class GameAction(types.Action):
        message: str

    class GameObservation(types.Observation):
        message: str

    def make_env() -> GameTextEnv:
        return GameTextEnv(game_id, opponent=opponent, seat=seat, illegal=illegal, **params)

    make_env()  # refuses wrong arguments now, not at the first session
    environment = _environment(interfaces.Environment, types.State, GameObservation, make_env)
    return environment, GameAction, GameObservation


def _environment(
    base: Any,  # noqa: ANN401 - classes of OpenEnv's
    state_class: Any,  # noqa: ANN401
    observation_class: Any,  # noqa: ANN401
    make_env: Callable[[], GameTextEnv],
) -> type[Any]:
    class GameEnvironment(base):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self._env = make_env()
            self._state = state_class()

        @property
        def state(self) -> Any:  # noqa: ANN401
            return self._state

        def reset(
            self, seed: int | None = None, episode_id: str | None = None, **options: object
        ) -> Any:  # noqa: ANN401
            check_options(options)
            message, info = self._env.reset(seed=seed)
            self._state = state_class(episode_id=episode_id, step_count=0)
            return self._observe(message, None, info)

        def step(
            self,
            action: Any,  # noqa: ANN401
            timeout_s: float | None = None,  # OpenEnv's; a move of a game takes no time
            **options: object,
        ) -> Any:  # noqa: ANN401
            message, reward, _, _, info = self._env.step(action.message)
            self._state.step_count += 1
            return self._observe(message, reward, info)

        def _observe(self, message: str, reward: float | None, info: dict[str, Any]) -> Any:  # noqa: ANN401
            ends = {"returns": info["returns"].tolist()} if "returns" in info else {}
            return observation_class(
                message=message, done=bool(ends), reward=reward, metadata={**info, **ends}
            )

    return GameEnvironment
