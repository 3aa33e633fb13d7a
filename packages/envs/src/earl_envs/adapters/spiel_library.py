"""OpenSpiel's games (Lanctot et al. 2019, arXiv:1908.09453) as the library loads them."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from earl_envs.suggest import suggest

try:
    import pyspiel
except ImportError as error:
    raise ImportError("OpenSpiel needs the extra: pip install earl-envs[openspiel]") from error

Spiel = Any
"""A game or a state of OpenSpiel; the library has no type information."""

_UNSOUND = frozenset({"chat_game"})  # has more actions than it announces
_PYTHON_GAMES = "open_spiel.python.games"  # importing it registers the games written in Python


def loadable_names() -> list[str]:
    """Return the names of the games that need no parameters and that `load_game` takes."""
    import_module(_PYTHON_GAMES)
    return sorted(
        kind.short_name
        for kind in pyspiel.registered_games()
        if kind.default_loadable
        and kind.short_name not in _UNSOUND
        and not kind.action_structs_only
        and kind.dynamics != pyspiel.GameType.Dynamics.MEAN_FIELD
    )


def load_game(name: str, params: Mapping[str, Any]) -> Spiel:
    """Load a game in which one player moves at a time; simultaneous moves are made in turn.

    Args:
        name: OpenSpiel's short name, or its whole notation such as `misere(game=tic_tac_toe())`.
        params: The game's parameters; games as parameters in OpenSpiel's notation.

    Raises:
        ValueError: If there is no such game, OpenSpiel refuses the parameters, or the game is none
            that finitely many seats can play by numbered actions.
    """
    short_name = name.partition("(")[0]
    if short_name in _UNSOUND:
        raise ValueError(f"{short_name!r} has more actions than it announces: it cannot be played")
    if short_name.startswith("python_"):
        import_module(_PYTHON_GAMES)
    if short_name not in (names := pyspiel.registered_names()):
        raise ValueError(suggest(short_name, names, what="game of OpenSpiel"))
    try:
        values = {key: _parameter(value) for key, value in params.items()}
        game = pyspiel.load_game(name, values) if values else pyspiel.load_game(name)
    except (RuntimeError, TypeError) as error:  # SpielError is a RuntimeError
        reason = " ".join(str(error).split())
        raise ValueError(f"OpenSpiel cannot load {name!r} with {params}: {reason}") from None
    kind = game.get_type()
    if kind.action_structs_only:
        raise ValueError(f"{name!r} has no numbered actions, which the contract of `Game` needs")
    if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        raise ValueError(
            f"{name!r} is a mean-field game: its state is a distribution over a population, "
            "which no finite number of seats can play"
        )
    if kind.dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        return pyspiel.convert_to_turn_based(game)
    return game


def _parameter(value: object) -> object:
    if isinstance(value, str) and value.endswith(")"):
        return pyspiel.game_parameters_from_string(value)
    return value
