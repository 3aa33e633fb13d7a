"""What the checks look at."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from earl_envs.checks import whole_number
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
    plays: tuple[Playthrough, ...] = ()
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
        """Return positions of all games: running ones as `running_visits` does, and ends."""
        yield from self.running_visits(limit - limit // 4)
        yield from _evenly([visit for visit, _ in self.endings], limit // 4)

    def running_visits(self, limit: int = _MAX_VISITS) -> Iterator[Visit]:
        """Return positions in which a seat is to move, the earliest first.

        They are spread evenly over all positions by depth, so that few of them still show how games
        begin, go on and are about to end.
        """
        pool = [play.visit(place) for play in self.plays for place in range(len(play.positions))]
        running = [visit for visit in pool if visit.position.returns is None]
        return _evenly(sorted(running, key=lambda visit: visit.place), limit)


Check = Callable[[Context], Iterable[Finding]]
"""Looks at a game for one kind of fault; only the first few findings are asked for."""


def make_context(game_id: str, params: Mapping[str, Any], *, num_games: int, seed: int) -> Context:
    """Make a game and play it.

    Raises:
        ValueError: If there is no such game, it cannot be made, or a number is not whole or too
            small.
    """
    return play_games(unplayed_context(game_id, params, seed=seed), num_games)


def unplayed_context(game_id: str, params: Mapping[str, Any], *, seed: int) -> Context:
    """Make a game and play nothing yet.

    Raises:
        ValueError: If there is no such game, it cannot be made, or the seed is no whole number.
    """
    seed = whole_number(seed, "seed", least=0)
    try:
        game = make_game(game_id, **params)
    except ValueError:
        raise
    except Exception as error:  # whatever a constructor of the user's raises
        raise ValueError(
            f"{game_id!r} cannot be made with {params}: {type(error).__name__}: {error}"
        ) from error
    return Context(game_id=game_id, params=params, game=game, seed=seed)


def play_games(context: Context, num_games: int) -> Context:
    """Return the same context with `num_games` random games.

    Raises:
        ValueError: If fewer than one is to be played.
    """
    num_games = whole_number(num_games, "num_games", least=1)
    seeds = range(context.seed, context.seed + num_games)
    return replace(context, plays=tuple(play_randomly(context.game, seed=s) for s in seeds))


def _evenly(visits: list[Visit], limit: int) -> Iterator[Visit]:
    places = np.linspace(0, len(visits) - 1, min(limit, len(visits))).round().astype(int)
    return (visits[place] for place in places.tolist())
