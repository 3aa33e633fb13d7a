"""A game as the seed and the moves that it came from."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, final

import numpy as np

from earl_envs.game import Game
from earl_envs.position import Position, examine
from earl_envs.registry import make_game


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GameRecord:
    """What replays a game, finished or not, to the same state.

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

    def positions(self) -> list[Position]:
        """Replay: the start and the position after every move, `len(moves) + 1` in all.

        Raises:
            ValueError: If a move is illegal where it was played, or follows the end; the message
                names the move and its place.
        """
        return replay(make_game(self.game_id, **self.params), self.seed, self.moves)

    def to_json(self) -> str:
        """Return the record as one line of JSON."""
        return json.dumps({**asdict(self), "moves": list(self.moves)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> "GameRecord":
        """Read what `to_json` wrote."""
        tree = json.loads(line)
        return cls(
            game_id=tree["game_id"],
            params=tree["params"],
            seed=tree["seed"],
            moves=tuple(tree["moves"]),
        )


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
