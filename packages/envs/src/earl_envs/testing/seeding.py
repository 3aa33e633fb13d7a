"""Checks of where chance comes from, and of copies that go on like the original."""

import pickle
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from earl_envs.boundary import Failure, attempt
from earl_envs.position import Position
from earl_envs.record import GameRecord, replay
from earl_envs.testing.context import Context
from earl_envs.testing.finding import Finding

_NUM_RESETS = 6
_NUM_SEEDS = 32
_MAX_PLAYS = 20
_UNUSUAL_SEED = 0x6561726C


def seed_control(context: Context) -> Iterator[Finding]:
    """One seed gives one start; seeds that are drawn from give several."""
    game = context.make_game()
    for play in context.plays[:_MAX_PLAYS]:
        starts = {game.initial(np.random.default_rng(play.seed)) for _ in range(_NUM_RESETS)}
        if starts != {play.positions[0].state}:
            yield play.visit(0).finding("initial() must give one start for one seed, got several")
    draws, starts = False, set[object]()
    for seed in range(_NUM_SEEDS):
        rng = np.random.default_rng(seed)
        starts.add(game.initial(rng))
        draws |= rng.bit_generator.state != np.random.default_rng(seed).bit_generator.state
    if draws and len(starts) == 1:
        yield Finding(wrong=f"initial() draws from rng, but {_NUM_SEEDS} seeds gave one start")


def episode_determinism(context: Context) -> Iterator[Finding]:
    """A seed and the moves give the same states in another object of the game."""
    game = context.make_game()
    for play in context.plays[:_MAX_PLAYS]:
        again = attempt(replay, game, play.seed, play.moves)
        if isinstance(again, Failure):
            yield play.visit(0).finding(f"seed and moves do not replay: {again.error}")
            continue
        for place, position in enumerate(again):
            if position != play.positions[place]:
                wrong = f"seed and moves give another position when replayed: {position.state!r}"
                yield play.visit(place).finding(wrong)
                break


def episode_isolation(context: Context) -> Iterator[Finding]:
    """Games played in turns are as if played alone."""
    for first, second in zip(context.plays[:_MAX_PLAYS], context.plays[1:], strict=False):
        game = context.make_game()
        states = [game.initial(np.random.default_rng(play.seed)) for play in (first, second)]
        for place in range(max(len(first.moves), len(second.moves))):
            for number, play in enumerate((first, second)):
                if place < len(play.moves):
                    states[number] = game.apply(states[number], play.moves[place])
        for play, state in zip((first, second), states, strict=True):
            if state != play.positions[-1].state:
                wrong = f"another game played in turns with this one made it end in {state!r}"
                yield play.visit(len(play.moves)).finding(wrong)


def global_random_state(context: Context) -> Iterator[Finding]:
    """Playing leaves the process-global random state of `random` and numpy alone."""

    def play_again() -> None:
        game = context.make_game()
        for play in context.plays[:_MAX_PLAYS]:
            for position in replay(game, play.seed, play.moves):
                game.text(position.state, 0)

    # Checkers of annotations such as beartype draw from `random` which items to look at.
    drawn_anyway = _changed_by(lambda: _annotated([0, 1]))
    for name in sorted(_changed_by(play_again) - drawn_anyway):
        yield Finding(
            wrong=f"playing changed the process-global state of {name}: chance may come from the "
            "rng of initial() only"
        )


def clone(context: Context) -> Iterator[Finding]:
    """A state copied or pickled in mid-game equals the original and goes on like it."""
    copies: dict[str, Callable[[Any], Any]] = {
        "deepcopy": lambda state: deepcopy(state),
        "pickle": lambda state: pickle.loads(pickle.dumps(state)),
    }
    for visit in context.visits(limit=200):
        for name, copy in copies.items():
            twin = attempt(copy, visit.state)
            if isinstance(twin, Failure):
                yield visit.finding(f"{name} of the state raises {twin.error}")
            elif twin != visit.state or hash(twin) != hash(visit.state):
                yield visit.finding(f"{name} of the state differs from it: {twin!r}")
            elif visit.position.legal:
                action = visit.position.legal[0]
                ours = visit.play.game.apply(visit.state, action)
                if visit.play.game.apply(twin, action) != ours:
                    yield visit.finding(f"action {action} leads elsewhere after {name}")


def record(context: Context) -> Iterator[Finding]:
    """A game written as JSON, seed and moves, replays to the state it was in."""
    for play in context.plays[:_MAX_PLAYS]:
        half = play.visit(len(play.moves) // 2)
        read = attempt(_written_and_replayed, context, play.seed, half.moves)
        if isinstance(read, Failure):
            yield half.finding(f"its record does not replay: {read.error}")
        elif read[-1] != half.position:
            yield half.finding(f"its record replays to another state: {read[-1].state!r}")


def _written_and_replayed(context: Context, seed: int, moves: tuple[int, ...]) -> list[Position]:
    record = GameRecord(game_id=context.game_id, params=context.params, seed=seed, moves=moves)
    return GameRecord.from_json(record.to_json()).positions()


def _changed_by(action: Callable[[], object]) -> set[str]:
    kept = random.getstate(), np.random.get_state()  # noqa: NPY002 - put back below
    try:
        # A state of our own: whoever seeds them always the same would leave them as they were.
        random.seed(_UNUSUAL_SEED)
        np.random.set_state(np.random.RandomState(_UNUSUAL_SEED).get_state())  # noqa: NPY002
        before = _global_states()
        action()
        return {name for name, state in _global_states().items() if state != before[name]}
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002


def _global_states() -> dict[str, object]:
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002 - read, not drawn from
    return {"random": random.getstate(), "numpy.random": pickle.dumps(numpy_state)}


def _annotated(items: list[int]) -> list[int]:
    return items
