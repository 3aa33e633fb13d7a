"""Game ids: the built-in table, installed packages and run-time registrations."""

import importlib
import inspect
import os
import pkgutil
import re
from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any, cast, final

from earl_envs.game import Game
from earl_envs.suggest import suggest

ENTRY_POINT_GROUP = "earl_envs.games"

GAMES: Mapping[str, str] = {
    "earl/2048-v0": "earl_envs.games.game_2048:Game2048",
    "earl/Breakthrough-v0": "earl_envs.games.breakthrough:Breakthrough",
    "earl/ConnectFour-v0": "earl_envs.games.connect_four:ConnectFour",
    "earl/FrozenLake-v0": "earl_envs.games.frozen_lake:FrozenLake",
    "earl/Hanabi-v0": "earl_envs.games.hanabi:Hanabi",
    "earl/Hex-v0": "earl_envs.games.hex:Hex",
    "earl/KuhnPoker-v0": "earl_envs.games.kuhn_poker:KuhnPoker",
    "earl/LeducPoker-v0": "earl_envs.games.leduc_poker:LeducPoker",
    "earl/Mastermind-v0": "earl_envs.games.mastermind:Mastermind",
    "earl/Nim-v0": "earl_envs.games.nim:Nim",
    "earl/Othello-v0": "earl_envs.games.othello:Othello",
    "earl/Sokoban-v0": "earl_envs.games.sokoban:Sokoban",
    "earl/TicTacToe-v0": "earl_envs.games.tic_tac_toe:TicTacToe",
}
"""Built-in games: id -> `module:Class`, imported when first made."""

FAMILIES: Mapping[str, str] = {
    "openspiel": "earl_envs.adapters.openspiel",
    "textarena": "earl_envs.adapters.textarena",
}
"""Games of other libraries: first part of their ids -> the adapter, imported when first asked."""

REGISTERED_VARIABLE = "EARL_ENVS_GAMES"
"""Environment variable by which the processes that this one starts know what it registered as
`module:Class`: `id=module:Class`, with semicolons in between."""

_ID_PATTERN = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+-v[0-9]+")
_ENTRY_PATTERN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")

Entry = str | type[Game]


@final
class GameRegistry:
    """All games this process can name.

    Installed packages are scanned once, at the first question; a package that clashes with another
    makes only the disputed id unusable. What the process that started this one had registered
    counts where nothing else has the id.
    """

    def __init__(self) -> None:
        self._registered: dict[str, Entry] = {}

    def register(self, game_id: str, entry: Entry) -> None:
        """Add a game; see `register_game`."""
        if not _ID_PATTERN.fullmatch(_checked_id(game_id)):
            raise ValueError(f"a game id looks like 'me/MyGame-v0', got {game_id!r}")
        if not _is_entry(entry):
            rule = "is a subclass of Game or looks like 'module:Class'"
            raise ValueError(f"the entry of {game_id!r} {rule}, got {entry!r}")
        taken = self._own_entries(game_id)
        if taken:
            raise ValueError(f"game id {game_id!r} is already taken by {_name(taken[0])!r}")
        self._registered[game_id] = entry
        self._tell_children()

    def forget(self, game_id: str) -> None:
        """Take back what `register` did."""
        del self._registered[game_id]
        self._tell_children()

    def is_local(self, game_id: str) -> bool:
        """Return whether a game was registered as a class, which no other process can look up."""
        return isinstance(self._registered.get(game_id), type)

    def ids(self, family: str | None = None) -> list[str]:
        """Return ids, sorted; see `game_ids`."""
        if family is None:
            return sorted({*GAMES, *self._registered, *self._installed, *self._inherited})
        if family not in FAMILIES:
            raise ValueError(suggest(family, FAMILIES, what="family of games"))
        return _adapter(family).family_ids()

    def make(self, game_id: str, **params: Any) -> Game:  # noqa: ANN401 - each game has its own
        """Load a game; see `make_game`."""
        entries = self._entries(_checked_id(game_id))
        if not entries:
            raise ValueError(suggest(game_id, self.ids(), what="game"))
        if len(entries) > 1:
            names = ", ".join(map(_name, entries))
            raise ValueError(f"game id {game_id!r} is claimed more than once: {names}")
        family, _, name = game_id.partition("/")
        if family in FAMILIES:
            return _adapter(family).make_family_game(name, **params)
        game_class = _load(game_id, entries[0])
        try:
            inspect.signature(game_class).bind(**params)
        except TypeError as error:
            raise ValueError(f"game {game_id!r} cannot be made with {params}: {error}") from None
        return game_class(**params)

    @cached_property
    def _installed(self) -> dict[str, list[str]]:
        installed: dict[str, list[str]] = {}
        for point in entry_points(group=ENTRY_POINT_GROUP):
            installed.setdefault(point.name, []).append(point.value)
        return installed

    @cached_property
    def _inherited(self) -> dict[str, str]:
        listed = os.environ.get(REGISTERED_VARIABLE, "").split(";")
        return {
            game_id: entry
            for game_id, _, entry in (pair.partition("=") for pair in listed)
            if _ID_PATTERN.fullmatch(game_id) and _ENTRY_PATTERN.fullmatch(entry)
        }

    def _tell_children(self) -> None:
        known = {**self._inherited, **self._registered}
        pairs = [f"{game_id}={entry}" for game_id, entry in known.items() if isinstance(entry, str)]
        os.environ.pop(REGISTERED_VARIABLE, None)
        if pairs:
            os.environ[REGISTERED_VARIABLE] = ";".join(pairs)

    def _entries(self, game_id: str) -> list[Entry]:
        inherited = [self._inherited[game_id]] if game_id in self._inherited else []
        return self._own_entries(game_id) or [*inherited]

    def _own_entries(self, game_id: str) -> list[Entry]:
        tables = (GAMES, self._registered)
        entries = [table[game_id] for table in tables if game_id in table]
        adapters = [module for name, module in FAMILIES.items() if game_id.startswith(f"{name}/")]
        return [*entries, *adapters, *self._installed.get(game_id, [])]


def _adapter(family: str) -> Any:  # noqa: ANN401 - a module with family_ids and make_family_game
    try:
        return importlib.import_module(FAMILIES[family])
    except ImportError as error:  # the message names the extra to install
        raise ValueError(str(error)) from None


def _checked_id(game_id: object) -> str:
    if not isinstance(game_id, str):
        raise ValueError(f"a game id is a string like 'me/MyGame-v0', got {game_id!r}")  # noqa: TRY004
    return game_id


def _is_entry(entry: object) -> bool:
    if isinstance(entry, str):
        return _ENTRY_PATTERN.fullmatch(entry) is not None
    return isinstance(entry, type) and issubclass(entry, Game)


def _name(entry: Entry) -> str:
    return entry if isinstance(entry, str) else f"{entry.__module__}:{entry.__qualname__}"


def _load(game_id: str, entry: Entry) -> type[Game]:
    try:
        loaded: object = pkgutil.resolve_name(entry) if isinstance(entry, str) else entry
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"game {game_id!r} cannot be loaded from {entry!r}: {error}") from error
    if isinstance(loaded, type) and issubclass(loaded, Game):
        return cast("type[Game]", loaded)
    raise ValueError(f"game {game_id!r} must be a subclass of Game, got {loaded!r}")


_REGISTRY = GameRegistry()


def register_game(game_id: str, entry: str | type[Game]) -> None:
    """Make a game known by its id for the rest of this process.

    With `module:Class` the processes that this one starts from then on know it too, spawned workers
    and those of a Ray cluster that `ray.init` starts here among them, as long as they find the
    module. A class is known to this process only. A game declared in its package's
    `pyproject.toml`, under `[project.entry-points."earl_envs.games"]`, is known everywhere that
    package is installed.

    Args:
        game_id: `namespace/Name-vN`, not taken by any other game.
        entry: `module:Class`, imported when the game is first made, or the class.

    Raises:
        ValueError: If the id or the entry is malformed, or the id is taken, here or at Gymnasium;
            the game is then registered nowhere.
    """
    # Imported here, as the frameworks' own packages take longer to load than this one.
    import gymnasium

    from earl_envs.faces.registration import register_with_frameworks, text_id

    _REGISTRY.register(game_id, entry)
    new = {game_id, text_id(game_id)} - gymnasium.registry.keys()
    try:
        register_with_frameworks(game_id)
    except (ValueError, gymnasium.error.Error) as error:
        _REGISTRY.forget(game_id)
        for env_id in new:
            gymnasium.registry.pop(env_id, None)
        raise ValueError(f"game {game_id!r} cannot be registered: {error}") from error


def is_local_game(game_id: str) -> bool:
    """Return whether a game was registered here as a class, which no other process can look up."""
    return _REGISTRY.is_local(game_id)


def make_game(game_id: str, **params: Any) -> Game:  # noqa: ANN401 - each game has its own
    """Return the game with this id.

    Args:
        game_id: Built in, registered, installed, or OpenSpiel's as `openspiel/SHORT_NAME-v0`.
        **params: Keyword arguments of the game's class, such as the size of a board.

    Raises:
        ValueError: If the id is unknown (the message names the nearest ones), claimed by two
            installed packages, leads to something that is no `Game`, takes no such parameters, or
            needs a library that is not installed.
    """
    return _REGISTRY.make(game_id, **params)


def game_ids(family: str | None = None) -> list[str]:
    """Return the ids of all known games, sorted.

    Args:
        family: A key of `FAMILIES`, to list the games of that library instead. Those of `openspiel`
            are made by `make_game`, those of `textarena` by `TextArenaEnv`, since they are played
            by text alone.

    Raises:
        ValueError: If there is no such family or its library is not installed.
    """
    return _REGISTRY.ids(family)
