"""Checks of batched stepping: every backend of a game against its rules, one game at a time."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earl_envs.batch import make_batch
from earl_envs.batch_base import Batch
from earl_envs.boundary import Failure, attempt
from earl_envs.faces.observation import observe
from earl_envs.game import Game
from earl_envs.position import Position, examine
from earl_envs.record import start_position
from earl_envs.testing.context import Context
from earl_envs.testing.finding import Finding
from earl_envs.testing.playthrough import locate

_NUM_GAMES = 8
_MAX_STEPS = 200
_NUM_REFUSED_STEPS = 12


def batch_agreement(context: Context) -> Iterator[Finding]:
    """Every backend shows in its arrays what the rules say, game by game and move by move."""
    for backend in _backends(context):
        rng = context.rng("batch_agreement")
        batch = _make(context, backend)
        singles = [start_position(context.game, seed) for seed in batch.seeds]
        for _ in range(_MAX_STEPS):
            for index, position in enumerate(singles):
                wrong = _disagreement(context.game, batch, index, position)
                if wrong:
                    yield _at(context, batch, index, f"batch with backend {backend}: {wrong}")
                    return
            running = [index for index, single in enumerate(singles) if single.legal]
            if not running:
                break
            actions = [int(rng.choice(singles[index].legal)) for index in running]
            batch.step(actions, running)
            for index, action in zip(running, actions, strict=True):
                state = context.game.apply(singles[index].state, action)
                singles[index] = examine(context.game, state)


def batch_subsets(context: Context) -> Iterator[Finding]:
    """A step of some games leaves the others as they are; a refused step leaves all."""
    for backend in _backends(context):
        rng = context.rng("batch_subsets")
        batch = _make(context, backend)
        for step in range(_MAX_STEPS):
            running = np.flatnonzero(~batch.done)
            if not len(running):
                break
            chosen = rng.permutation(running)[: 1 + len(running) // 2]
            others = np.setdiff1d(np.arange(batch.batch_size), chosen)
            before = _shown(batch)
            if step < _NUM_REFUSED_STEPS:
                yield from _refusals(context, batch, int(chosen[0]), before)
            batch.step([rng.choice(batch.legal(index)) for index in chosen.tolist()], chosen)
            for name, value in _shown(batch).items():
                if not np.array_equal(value[others], before[name][others]):
                    yield Finding(wrong=f"batch with backend {backend}: stepping games "
                                  f"{chosen.tolist()} changed {name} of others")  # fmt: skip
        for index in np.flatnonzero(batch.done).tolist():
            if not isinstance(attempt(batch.step, [0], [index]), Failure):
                yield _at(context, batch, index, f"{backend} batch steps a finished game")


def batch_restart(context: Context) -> Iterator[Finding]:
    """`restart` and `autoreset` begin the same next game, and keep the final observation."""
    for backend in _backends(context):
        manual, automatic = _make(context, backend), _make(context, backend, autoreset=True)
        rng = context.rng("batch_restart")
        for _ in range(_MAX_STEPS):
            actions = [int(rng.choice(manual.legal(i))) for i in range(manual.batch_size)]
            manual.step(actions)
            automatic.step(actions)
            ended = np.flatnonzero(manual.done)
            pairs = {
                "done": (manual.done, automatic.done),
                "returns": (manual.returns[ended], automatic.returns[ended]),
                "the final observation": (
                    manual.observations[ended],
                    automatic.final_observations[ended],
                ),
            }
            yield from _differences(backend, pairs)
            if len(ended):
                manual.restart(ended)
            manual_shows, automatic_shows = _shown(manual), _shown(automatic)
            names = ("seats", "legal_mask", "num_moves", "observations", "episodes")
            pairs = {name: (manual_shows[name], automatic_shows[name]) for name in names}
            yield from _differences(backend, pairs)
            if manual.episodes.min() >= 2:
                break
        for index in range(manual.batch_size):
            if manual.record(index).positions()[-1].state != manual.state(index):
                yield _at(context, manual, index, f"{backend} batch: its record replays elsewhere")


def _backends(context: Context) -> list[str]:
    has_kernel = type(_make(context, "auto")) is not type(_make(context, "generic"))
    return ["generic", "auto"] if has_kernel else ["generic"]


def _make(context: Context, backend: str, *, autoreset: bool = False) -> Batch:
    return make_batch(
        context.game_id,
        batch_size=_NUM_GAMES,
        seed=context.seed,
        autoreset=autoreset,
        backend=backend,
        **context.params,
    )


def _shown(batch: Batch) -> dict[str, NDArray[Any]]:
    names = (
        "seats", "done", "returns", "num_moves", "legal_mask", "observations", "episodes"
    )  # fmt: skip
    return {name: np.array(getattr(batch, name)) for name in names}


def _disagreement(game: Game, batch: Batch, index: int, expected: Position) -> str:
    """Return how the arrays of one game differ from its rules, empty if they do not."""
    mask = np.zeros(game.num_actions, np.bool_)
    mask[list(expected.legal)] = True
    returns = expected.returns or (0.0,) * game.num_seats
    wanted: dict[str, tuple[object, object]] = {
        "seat": (expected.seat, int(batch.seats[index])),
        "done": (expected.returns is not None, bool(batch.done[index])),
        "legal_mask": (mask.tolist(), batch.legal_mask[index].tolist()),
        "returns": (np.array(returns, np.float32).tolist(), batch.returns[index].tolist()),
        "state": (expected.state, batch.state(index)),
    }
    if expected.seat >= 0:
        shown = batch.observations[index]
        right = observe(game, expected.state, expected.seat, batch.moves(index), like=shown)
        wanted["observation"] = (right.tolist(), shown.tolist())
    for name, (right, got) in wanted.items():
        if right != got:
            return f"{name} must be {right}, got {got}"
    return ""


def _refusals(
    context: Context, batch: Batch, index: int, before: dict[str, NDArray[Any]]
) -> Iterator[Finding]:
    illegal = np.flatnonzero(~batch.legal_mask[index])[:3].tolist()
    for action in (-1, context.game.num_actions, 0.5, *illegal):
        if not isinstance(attempt(batch.step, [action], [index]), Failure):
            yield _at(context, batch, index, f"batch.step() takes the illegal action {action}")
        elif any(not np.array_equal(v, before[name]) for name, v in _shown(batch).items()):
            yield _at(context, batch, index, f"refusing action {action} changed the batch")


def _differences(
    backend: str, pairs: dict[str, tuple[NDArray[Any], NDArray[Any]]]
) -> Iterator[Finding]:
    for name, (manual, automatic) in pairs.items():
        if not np.array_equal(manual, automatic):
            yield Finding(
                wrong=f"batch with backend {backend}: {name} with autoreset is "
                f"{automatic.tolist()}, with restart() {manual.tolist()}"
            )


def _at(context: Context, batch: Batch, index: int, wrong: str) -> Finding:
    record = batch.record(index)
    return locate(context.game, record.seed, tuple(record.moves), batch.state(index), wrong)
