"""What the checks look at."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from earl_envs.game import Game
from earl_envs.opponents.base import episode_rng
from earl_envs.registry import make_game
from earl_envs.testing.finding import Finding
from earl_envs.testing.playthrough import Playthrough, Visit, play_randomly

_MAX_VISITS = 600


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A game and random games of it.

    Example:
        context = make_context("earl/TicTacToe-v0", {}, num_games=20, seed=0)
        longest = max(len(play.moves) for play in context.plays)
    """

    game_id: str
    """The id the game is made by."""
    params: Mapping[str, Any]  # Any: each game has its own
    """Keyword arguments of the game's class."""
    game: Game
    """The rules."""
    seed: int
    """Everything that is drawn in the checks derives from it."""
    plays: tuple[Playthrough, ...]
    """Games of random legal moves."""

    @property
    def endings(self) -> list[tuple[Visit, tuple[float, ...]]]:
        """The last position and the scores of every game that has an end."""
        ends = [play.visit(len(play.moves)) for play in self.plays if play.fault is None]
        return [(visit, visit.position.returns or ()) for visit in ends]

    def make_game(self) -> Game:
        """Return another object of the same game."""
        return make_game(self.game_id, **self.params)

    def rng(self, purpose: str) -> np.random.Generator:
        """Return the stream of chance of one check."""
        return episode_rng(self.seed, game_id=purpose, episode=0, seat=0)

    def visits(self, limit: int = _MAX_VISITS) -> Iterator[Visit]:
        """Return positions of all games, both ends of each and as many between as `limit` allows.

        The visits of a game are spread evenly over its moves.
        """
        each = max(2, limit // max(1, len(self.plays)))
        for play in self.plays:
            last = len(play.positions) - 1
            places = np.linspace(0, last, min(each, last + 1)).round().astype(int).tolist()
            yield from (play.visit(place) for place in places)

    def running_visits(self, limit: int = _MAX_VISITS) -> Iterator[Visit]:
        """Return those of `visits` in which a seat is to move."""
        return (visit for visit in self.visits(limit) if visit.position.returns is None)


Check = Callable[[Context], Iterable[Finding]]
"""Looks at a game for one kind of fault; only the first few findings are asked for."""


def make_context(game_id: str, params: Mapping[str, Any], *, num_games: int, seed: int) -> Context:
    """Make a game and play it.

    Raises:
        ValueError: If there is no such game, or fewer than one is to be played.
    """
    if num_games < 1:
        raise ValueError(f"num_games must be >= 1, got {num_games}")
    game = make_game(game_id, **params)
    plays = tuple(play_randomly(game, seed=seed + number) for number in range(num_games))
    return Context(game_id=game_id, params=params, game=game, seed=seed, plays=plays)
