"""A game as the seed and the moves that it came from."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast, final

import numpy as np

from earl_envs.checks import whole_number, whole_numbers
from earl_envs.game import Game
from earl_envs.position import Position, examine
from earl_envs.registry import make_game


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GameRecord:
    """What replays a game, finished or not, to the same state.

    Moves become a tuple of ints, whatever integers they are given as, so that records can be
    compared and counted.

    Example:
        >>> record = GameRecord(game_id="earl/TicTacToe-v0", seed=3, moves=(4, 0))
        >>> GameRecord.from_json(record.to_json()).positions()[-1].state
        (16, 1)
    """

    game_id: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])  # Any: plain JSON values
    """Keyword arguments of the game's class, such as the size of a board."""
    seed: int
    """Seeds the generator that `Game.initial` draws from."""
    moves: Sequence[int] = ()
    """Actions of all seats in the order they were played."""

    def __post_init__(self) -> None:
        """Take the values over.

        Raises:
            ValueError: If the seed is no whole number from 0 on, or a move no integer.
        """
        object.__setattr__(self, "params", dict(self.params))
        object.__setattr__(self, "seed", whole_number(self.seed, "seed", least=0))
        object.__setattr__(self, "moves", tuple(whole_numbers(self.moves, "move")))

    def __hash__(self) -> int:
        """Hash all but the parameters, whose values need not be hashable."""
        return hash((self.game_id, self.seed, self.moves))

    def positions(self) -> list[Position]:
        """Replay: the start and the position after every move, `len(moves) + 1` in all.

        Raises:
            ValueError: If a move is illegal where it was played, or follows the end; the message
                names the move and its place.
        """
        return replay(make_game(self.game_id, **self.params), self.seed, self.moves)

    def to_json(self) -> str:
        """Return the record as one line of JSON.

        Raises:
            ValueError: If a parameter is nothing that JSON has.
        """
        return json.dumps(asdict(self), default=_plain, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> "GameRecord":
        """Read what `to_json` wrote.

        Raises:
            ValueError: If it is no JSON object with the four fields, each of its kind.
        """
        try:
            tree: object = json.loads(line)
        except ValueError:
            tree = line
        if not isinstance(tree, dict):
            raise ValueError(f"a record is a line of JSON with {_NAMES}, got {tree!r}")  # noqa: TRY004
        values = cast("dict[str, Any]", tree)
        missing = [name for name in _KINDS if name not in values]
        if missing:
            raise ValueError(f"a record needs {_NAMES}, this one lacks {', '.join(missing)}")
        for name, kind in _KINDS.items():
            if not isinstance(value := values[name], kind):
                rule = f"{name} of a record must be {kind.__name__}"
                raise ValueError(f"{rule}, got {value!r}")  # noqa: TRY004
        return cls(**{name: values[name] for name in _KINDS})


_KINDS = {"game_id": str, "params": dict, "seed": int, "moves": list}
_NAMES = ", ".join(_KINDS)


def _plain(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return cast("Any", value).tolist()
    raise ValueError(f"a parameter of a record must be plain JSON, got {value!r}")


def start_position(game: Game, seed: int) -> Position:
    """Return the start of a game; the only place where a seed becomes a state."""
    return examine(game, game.initial(np.random.default_rng(seed)))


def replay(game: Game, seed: int, moves: Sequence[int]) -> list[Position]:
    """Play `moves` from the start that `seed` gives; see `GameRecord.positions`."""
    positions = [start_position(game, seed)]
    for place, move in enumerate(moves):
        if move not in positions[-1].legal:
            raise ValueError(f"move {place} of the record, action {move}, is not legal there")
        positions.append(examine(game, game.apply(positions[-1].state, move)))
    return positions
