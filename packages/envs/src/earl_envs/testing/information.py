"""Checks of what seats are shown, and that search opponents see no more."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earl_envs.boundary import Failure, attempt
from earl_envs.game import Game
from earl_envs.record import start_position
from earl_envs.testing.context import Context
from earl_envs.testing.finding import Finding
from earl_envs.testing.playthrough import Visit

_MAX_TEXT_CHARS = 10_000
_NUM_STARTS = 64
_NUM_DRAWS = 32
_NUM_ALIKE = 8  # starts compared with one another
_MAX_FOLLOWED_MOVES = 40


def texts(context: Context) -> Iterator[Finding]:
    """`text` shows every seat something, at any time, also after the end, and not a book."""
    for visit in context.visits():
        for seat in visit.seats:
            text = _answer(visit.play.game.text, visit.state, seat)
            if isinstance(text, Failure):
                yield visit.finding(f"text() for seat {seat} raises {text.error}")
            elif not isinstance(text, str) or not text.strip():
                yield visit.finding(f"text() for seat {seat} must say something, got {text!r}")
            elif len(text) > _MAX_TEXT_CHARS:
                yield visit.finding(
                    f"text() for seat {seat} has {len(text)} characters "
                    f"(limit {_MAX_TEXT_CHARS}): contexts hold every turn"
                )
            elif not all(char.isprintable() or char in "\n\t" for char in text):
                yield visit.finding(f"text() for seat {seat} must be printable, got {text!r}")


def planes(context: Context) -> Iterator[Finding]:
    """`planes` is a uint8 array of one shape in every position, or always None."""
    expected: tuple[int, ...] | None = None
    for number, visit in enumerate(context.visits()):
        for seat in visit.seats:
            got = _answer(visit.play.game.planes, visit.state, seat)
            if isinstance(got, Failure):
                yield visit.finding(f"planes() for seat {seat} raises {got.error}")
                continue
            shape = got.shape if isinstance(got, np.ndarray) else None
            kind = str(got.dtype) if isinstance(got, np.ndarray) else type(got).__name__
            if got is not None and kind != "uint8":
                yield visit.finding(f"planes() for seat {seat} must be uint8, got {kind}")
                continue
            if number == seat == 0:
                expected = shape
            elif shape != expected:
                yield visit.finding(
                    f"planes() for seat {seat} must always have one shape, "
                    f"{expected} at the start, got {shape}"
                )


def resample(context: Context) -> Iterator[Finding]:
    """`resample` gives states that its seat cannot tell apart, and redraws what is hidden."""
    rng = context.rng("resample")
    for visit in context.running_visits(limit=300):
        for seat in visit.seats:
            drawn = attempt(visit.play.game.resample, visit.state, seat, rng)
            if isinstance(drawn, Failure):
                yield visit.finding(f"resample() for seat {seat} raises {drawn.error}")
            else:
                yield from _told_apart(visit, seat, drawn)
    yield from _never_redrawn(context.make_game(), rng)


def _answer(question: Callable[..., object], *args: object) -> object:
    """Ask without trust in the annotation of the answer."""
    return attempt(question, *args)


def _told_apart(visit: Visit, seat: int, drawn: object) -> Iterator[Finding]:
    game, state = visit.play.game, visit.state
    asked: dict[str, Callable[[Any], object]] = {
        "text()": lambda state: game.text(state, seat),
        "planes()": lambda state: _listed(game.planes(state, seat)),
        "seat()": game.seat,
        "returns()": game.returns,
    }
    if seat == visit.position.seat:
        asked["legal()"] = lambda state: sorted(game.legal(state))
    for name, ask in asked.items():
        ours, theirs = attempt(ask, state), attempt(ask, drawn)
        if ours != theirs:
            yield visit.finding(
                f"seat {seat} can tell the state of resample() by its {name}: "
                f"{ours!r} became {theirs!r}"
            )


def _listed(planes: NDArray[np.uint8] | None) -> object:
    return None if planes is None else planes.tolist()


def _never_redrawn(game: Game, rng: np.random.Generator) -> Iterator[Finding]:
    """Starts that look alike to a seat but go on differently have parts that must be redrawn."""
    for seat in range(game.num_seats):
        seeds_by_view: defaultdict[object, list[int]] = defaultdict(list)
        for seed in range(_NUM_STARTS):
            state = start_position(game, seed).state
            view = game.planes(state, seat)
            shown = (game.text(state, seat), None if view is None else view.tobytes())
            seeds_by_view[shown].append(seed)
        for seeds in seeds_by_view.values():
            states = [start_position(game, seed).state for seed in seeds[:_NUM_ALIKE]]
            drawn = {game.resample(states[0], seat, rng) for _ in range(_NUM_DRAWS)}
            other = next((s for s in states[1:] if go_on_differently(game, states[0], s)), None)
            if other is not None and drawn == {states[0]}:
                yield Finding(
                    wrong=f"the starts of seeds {seeds[0]} and {seeds[states.index(other)]} look "
                    f"alike to seat {seat} and are not, but resample() redraws nothing",
                    seed=seeds[0],
                    board=game.text(states[0], seat),
                )


def go_on_differently(game: Game, first: Hashable, second: Hashable) -> bool:
    """Return whether the same moves show somebody a difference between two states."""
    for _ in range(min(game.max_moves, _MAX_FOLLOWED_MOVES)):
        if any(game.text(first, seat) != game.text(second, seat) for seat in range(game.num_seats)):
            return True
        if game.returns(first) != game.returns(second):
            return True
        common = sorted(set(game.legal(first)) & set(game.legal(second)))
        if not common:
            return False
        action = common[len(common) // 2]
        first, second = game.apply(first, action), game.apply(second, action)
    return False
