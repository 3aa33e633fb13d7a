"""Asking opponents for their moves, many at a time where they allow it."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TypeVar

from earl_envs.opponents.base import Opponent

Answer = TypeVar("Answer")


def ask_each(players: Sequence[Opponent], ask: Callable[[int], Answer]) -> list[Answer]:
    """Return `ask(0)`, `ask(1)`, ...: what the player of each place answers.

    The places of a player whose `max_concurrent_moves` is above 1 are asked on as many threads.
    Meanwhile all others are asked one after the other, on the calling thread. If an answer depends
    on its own place alone, as moves do, it is the same either way.

    Args:
        players: Who is asked at each place.
        ask: Gets the answer of a place, within a time of its own.

    Raises:
        Exception: Whatever `ask` raises; places that are not yet being asked by then never are.
    """
    alone: list[int] = []
    shared: dict[int, list[int]] = {}
    for place, player in enumerate(players):
        places = shared.setdefault(id(player), []) if _limit(player) > 1 else alone
        places.append(place)
    with ExitStack() as stack:
        # `map` asks nobody before its turn comes, after all threads have begun.
        waves: list[tuple[list[int], Iterator[Answer]]] = [(alone, map(ask, alone))]
        for places in shared.values():
            pool = ThreadPoolExecutor(min(len(places), _limit(players[places[0]])))
            # Whoever is interrupted does not wait for answers that nobody wants any more.
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)
            waves.append((places, pool.map(ask, places)))
        answers = {
            place: answer
            for places, wave in waves
            for place, answer in zip(places, wave, strict=True)
        }
    return [answers[place] for place in range(len(players))]


def _limit(player: Opponent) -> int:
    return getattr(player, "max_concurrent_moves", 1)
