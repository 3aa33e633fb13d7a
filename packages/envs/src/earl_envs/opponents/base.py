"""Players to train and to evaluate against."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Protocol, final, runtime_checkable

import numpy as np

from earl_envs.game import Game, State
from earl_envs.suggest import suggest


@runtime_checkable
class Opponent(Protocol):
    """Whatever picks a move. It keeps nothing between moves; chance comes from `rng` only."""

    def move(self, game: Game[State], state: State, seat: int, rng: np.random.Generator) -> int:
        """Return a legal action for `seat`, whose turn it is in `state`."""
        ...


@final
class RandomOpponent:
    """Plays every legal action with equal probability."""

    def move(self, game: Game[State], state: State, seat: int, rng: np.random.Generator) -> int:
        """Draw one of the legal actions."""
        legal = game.legal(state)
        return int(legal[rng.integers(len(legal))])


OPPONENTS: Mapping[str, Callable[[], Opponent]] = {"random": RandomOpponent}
"""Opponents by name."""


def make_opponent(name: str) -> Opponent:
    """Return the opponent with this name.

    Raises:
        ValueError: If the name is unknown; the message names the nearest ones.
    """
    if name not in OPPONENTS:
        raise ValueError(suggest(name, OPPONENTS, what="opponent"))
    return OPPONENTS[name]()


def episode_rng(seed: int, *, game_id: str, episode: int, seat: int) -> np.random.Generator:
    """Return the stream of chance of one seat in one episode.

    It depends on these four values and on nothing else, so an episode is the same whether it is
    played alone, in a batch, or in another process.
    """
    # A digest, as entropy given to numpy number by number is run together: the lists [2**32, 1] and
    # [0, 1, 1] seed one and the same stream.
    key = f"{seed}/{episode}/{seat}/{game_id}".encode()
    digest = hashlib.blake2b(key, digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))
