"""Histories that one seat cannot tell from the true one."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Spiel = Any  # OpenSpiel's states are opaque here

MAX_STATES = 20_000
"""A search that has looked at so many states gives up."""


def consistent_history(
    root: Spiel,
    history: Sequence[int],
    seat: int,
    *,
    view: Callable[[Spiel], str],
    rng: np.random.Generator,
) -> tuple[int, ...]:
    """Draw a history as long as the true one that looks the same to `seat` at every step.

    A depth-first search from the start: actions of others are tried in random order, those of
    chance the likely ones first (order of exponential variables divided by the probabilities,
    Efraimidis and Spirakis 2006, doi:10.1016/j.ipl.2005.11.003), the seat's own as they were.

    Args:
        root: OpenSpiel's state before the first action.
        history: All actions so far, those of chance included.
        seat: The seat that looks.
        view: What `seat` is shown of a state.
        rng: Decides the order.

    Raises:
        ValueError: If `MAX_STATES` states are not enough.
    """
    seen = list(_seen(root, history, seat, view))
    drawn: list[int] = []
    levels = [(root, _candidates(root, history[:1], seat, rng))]
    for _ in range(MAX_STATES):
        if len(drawn) == len(history):
            return tuple(drawn)
        spiel, candidates = levels[-1]
        action = next(candidates, None)
        if action is None:
            levels.pop()
            drawn.pop()
            continue
        child = spiel.child(action)
        if _look(child, seat, view) == seen[len(levels)]:
            drawn.append(action)
            place = len(drawn)
            levels.append((child, _candidates(child, history[place : place + 1], seat, rng)))
    raise ValueError(f"no other history was found within {MAX_STATES} states")


def _seen(
    spiel: Spiel, history: Sequence[int], seat: int, view: Callable[[Spiel], str]
) -> Iterator[tuple[object, ...]]:
    yield _look(spiel, seat, view)
    for action in history:
        spiel = spiel.child(action)
        yield _look(spiel, seat, view)


def _look(spiel: Spiel, seat: int, view: Callable[[Spiel], str]) -> tuple[object, ...]:
    mine = spiel.current_player() == seat
    return (
        spiel.is_terminal(),
        spiel.is_chance_node(),
        tuple(spiel.legal_actions()) if mine else None,
        view(spiel),
    )


def _candidates(
    spiel: Spiel, true: Sequence[int], seat: int, rng: np.random.Generator
) -> Iterator[int]:
    if spiel.is_terminal():
        return iter(())
    if spiel.current_player() == seat:
        return iter(true)
    if spiel.is_chance_node():
        actions, weights = map(np.asarray, zip(*spiel.chance_outcomes(), strict=True))
        order = np.argsort(rng.exponential(size=len(actions)) / weights)
        return iter(actions[order].tolist())
    return iter(rng.permutation(spiel.legal_actions()).tolist())
