"""Check that a worker process knows the game and plays it to the same states."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from earl_envs.boundary import Failure, attempt
from earl_envs.position import Position
from earl_envs.record import GameRecord
from earl_envs.testing.context import Context
from earl_envs.testing.finding import Finding

_TIMEOUT_S = 120


def spawn_worker(context: Context) -> Iterator[Finding]:
    """A spawned process, which has run no code of the user's, makes the game and replays it."""
    play = context.plays[0]
    line = GameRecord(
        game_id=context.game_id, params=context.params, seed=play.seed, moves=play.moves
    ).to_json()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
        reached = attempt(pool.submit(_replay, line).result, _TIMEOUT_S)
    if isinstance(reached, Failure):
        yield Finding(
            wrong=f"a spawned process cannot play the game: {reached.error}; it knows games by "
            'their package\'s entry points in [project.entry-points."earl_envs.games"]'
        )
    elif reached != play.positions[-1]:
        wrong = f"a spawned process comes to another state: {reached.state!r}"
        yield play.visit(len(play.moves)).finding(wrong)


def _replay(line: str) -> Position:
    return GameRecord.from_json(line).positions()[-1]
