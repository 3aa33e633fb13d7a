"""What an opponent is, the table of opponents by name, and their streams of chance."""

import hashlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, cast, final, runtime_checkable

import numpy as np

from earl_envs.game import Game, State
from earl_envs.suggest import suggest


@runtime_checkable
class Opponent(Protocol):
    """Whatever picks a move.

    Its moves depend on what `move` is given and on nothing else: no state of a game is kept between
    calls, and chance comes from `rng` only. Values that were worked out before may be remembered.

    A player that mostly waits, such as for a server, may have an attribute `max_concurrent_moves`:
    `ask_each` then calls `move` from as many threads at once. Without it one move is asked for at
    a time.
    """

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


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpponentKind:
    """How a name in a spec becomes an opponent."""

    target: str
    """`module:callable`, imported when first used."""
    argument: str = ""
    """What follows the name after a colon and is given to the callable; empty if nothing may."""
    example: str
    """A spec of this kind."""


_HOME = "earl_envs.opponents"
OPPONENTS: Mapping[str, OpponentKind] = {
    "random": OpponentKind(target=f"{_HOME}.base:RandomOpponent", example="random"),
    "first": OpponentKind(target=f"{_HOME}.scripted:FirstLegal", example="first"),
    "scripted": OpponentKind(
        target=f"{_HOME}.scripted:ScriptedOpponent.from_text",
        argument="ACTIONS",
        example="scripted:4,0,8",
    ),
    "minimax": OpponentKind(target=f"{_HOME}.minimax:Minimax", example="minimax"),
    "negamax": OpponentKind(
        target=f"{_HOME}.negamax:Negamax.from_text", argument="DEPTH", example="negamax:6"
    ),
    "mcts": OpponentKind(
        target=f"{_HOME}.mcts:Mcts.from_text", argument="SIMULATIONS", example="mcts:1000"
    ),
    "perfect": OpponentKind(target=f"{_HOME}.perfect:PerfectOpponent", example="perfect"),
    "pool": OpponentKind(
        target=f"{_HOME}.pool:OpponentPool.from_text",
        argument="SPEC,SPEC,...",
        example="pool:random,negamax:2",
    ),
    "openai": OpponentKind(
        target=f"{_HOME}.endpoint:EndpointOpponent.from_text",
        argument="URL#MODEL",
        example="openai:http://localhost:8000/v1#my-model",
    ),
}
"""Opponents by name; a spec is a name, or a name, a colon and an argument."""


def make_opponent(spec: str) -> Opponent:
    """Return the opponent that a spec such as `random` or `negamax:6` names.

    Raises:
        ValueError: If the name is unknown (the message names the nearest), or its argument is
            missing, unwanted or wrong.
    """
    name, colon, argument = spec.partition(":")
    if name == "self":
        raise ValueError(
            "'self' names no player: to train against itself use `earl train --opponent self`, to "
            "play all seats of an environment yourself `opponent=None`"
        )
    if name not in OPPONENTS:
        raise ValueError(suggest(name, OPPONENTS, what="opponent"))
    kind = OPPONENTS[name]
    if kind.argument and not argument:
        raise ValueError(
            f"opponent {name!r} needs {kind.argument}, such as {kind.example!r}, got {spec!r}"
        )
    if colon and not kind.argument:
        raise ValueError(f"opponent {name!r} takes no argument, got {spec!r}")
    make = cast("Callable[..., Opponent]", pkgutil.resolve_name(kind.target))
    return make(argument) if kind.argument else make()


def check_opponent(spec: str) -> None:
    """Refuse a spec that `make_opponent` would refuse; making one is cheap and has no effect.

    Raises:
        ValueError: See `make_opponent`.
    """
    make_opponent(spec)


def whole_number(text: str, *, what: str, least: int = 1, most: int = 10**9) -> int:
    """Read a whole number out of a spec.

    Raises:
        ValueError: If it is none, or not in `least..most`.
    """
    if len(text) > len(str(most)):
        raise ValueError(f"{what} must be at most {most}, got {len(text)} characters")
    if not (text.isascii() and text.isdecimal()) or int(text) < least:
        raise ValueError(f"{what} must be a whole number >= {least}, got {text!r}")
    if int(text) > most:
        raise ValueError(f"{what} must be at most {most}, got {text}")
    return int(text)


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
