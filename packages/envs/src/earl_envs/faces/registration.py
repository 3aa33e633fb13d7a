"""Making games known to Gymnasium and PettingZoo, by name only: no game is loaded."""

import warnings
from collections.abc import Iterable

import gymnasium
import pettingzoo
from gymnasium.envs.registration import registry

_FACES = "earl_envs.faces"
_ENV = f"{_FACES}.gymnasium_env:GameEnv"
_TEXT_ENV = f"{_FACES}.gymnasium_text_env:GameTextEnv"
_VECTOR_ENV = f"{_FACES}.gymnasium_vector:GameVectorEnv"
_AEC_ENV = f"{_FACES}.pettingzoo_env:pettingzoo_env"
_PARALLEL_ENV = f"{_FACES}.pettingzoo_env:pettingzoo_parallel_env"


def register_with_frameworks(game_id: str) -> None:
    """Register a game with both frameworks; one that is registered already stays so.

    `me/Game-v0` is then known to `gymnasium.make` and `make_vec`, to `pettingzoo.make` as "aec" and
    as "parallel", and as `me/Game-Text-v0` to `gymnasium.make`. Built-in and installed games are
    known at once and those of `register_game` from then on; the games of other libraries are not,
    as asking for their names would load the library.

    Example:
        register_with_frameworks("openspiel/tic_tac_toe-v0")
        env = gymnasium.make("openspiel/tic_tac_toe-v0", opponent="random")

    Raises:
        ValueError: If Gymnasium knows the id as something else.
    """
    kwargs = {"game_id": game_id}
    _register(game_id, _ENV, vector_entry_point=_VECTOR_ENV, kwargs=kwargs)
    _register(text_id(game_id), _TEXT_ENV, vector_entry_point=None, kwargs=kwargs)
    if game_id not in pettingzoo.aec_registry:
        pettingzoo.register("aec", game_id, _AEC_ENV, kwargs=kwargs)
        pettingzoo.register("parallel", game_id, _PARALLEL_ENV, kwargs=kwargs)


def register_all(game_ids: Iterable[str]) -> None:
    """Register games; one that cannot be is left out with a warning, so that the others work."""
    for game_id in game_ids:
        try:
            register_with_frameworks(game_id)
        except (ValueError, gymnasium.error.Error) as error:
            warnings.warn(f"{game_id!r} is unknown to gymnasium.make: {error}", stacklevel=2)


def text_id(game_id: str) -> str:
    """Return the id of a game's text environment: `me/Game-Text-v0` for `me/Game-v0`."""
    name, _, version = game_id.rpartition("-v")
    return f"{name}-Text-v{version}"


def _register(
    env_id: str, entry_point: str, *, vector_entry_point: str | None, kwargs: dict[str, str]
) -> None:
    if env_id not in registry:
        gymnasium.register(
            env_id, entry_point, vector_entry_point=vector_entry_point, kwargs=kwargs
        )
    elif registry[env_id].entry_point != entry_point or registry[env_id].kwargs != kwargs:
        taken_by = registry[env_id].entry_point
        raise ValueError(f"Gymnasium knows {env_id!r} already, as {taken_by!r}")
