"""Games for TextArena's agents, wrappers and loops; TextArena is imported when asked for."""

from importlib import import_module
from typing import Any

from earl_envs.registry import make_game

_ENV_MODULE = "earl_envs.faces.textarena_env"


def register_with_textarena(game_id: str, **params: Any) -> None:  # noqa: ANN401
    """Make a game known to `textarena.make`: by its id for language models, by `ID-raw` without.

    Raises:
        ImportError: If TextArena is not installed; the message names the extra.
        ValueError: If `make_game` refuses the id or the parameters, or TextArena knows the id.
    """
    make_game(game_id, **params)
    module = import_module(_ENV_MODULE)
    entry = f"{_ENV_MODULE}:TextArenaGame"
    register, wrappers = module.ta.register, [module.FreshHistory]
    register(game_id, entry, default_wrappers=wrappers, game_id=game_id, **params)
    register(f"{game_id}-raw", entry, game_id=game_id, **params)
