"""This package with actions that lie in the caller's own array, and with half of the games stepped.

What `random_actions` drew is copied, and the step starts from the copy: it is taken over and every
move of it is checked, as `step` cannot know where it came from. The peers' rows include the drawing
too.
"""

from collections.abc import Iterator

import numpy as np
from drive_earl import GAME_IDS
from driver import Run, Workload, drive
from earl_envs.batch import make_batch

MIN_BATCH = 1024
HALVED_BATCH = 16384
NUM_HALVES = 16


def given(game: str, batch_size: int) -> Run:
    """Make the moves of the caller's array in all games per call."""
    batch = make_batch(
        GAME_IDS[game], batch_size=batch_size, seed=0, autoreset=True, backend="numba"
    )
    own = np.empty(batch_size, np.int64)

    def run(num_calls: int) -> int:
        step, choose = batch.step, batch.random_actions
        for _ in range(num_calls):
            own[:] = choose()
            step(own)
        return num_calls * batch_size

    return run


def halved(game: str, batch_size: int) -> Run:
    """Make moves in a random half of the games per call; the draw is for all of them."""
    batch = make_batch(
        GAME_IDS[game], batch_size=batch_size, seed=0, autoreset=True, backend="numba"
    )
    rng, size = np.random.default_rng(0), batch_size // 2
    halves = [np.sort(rng.permutation(batch_size)[:size]) for _ in range(NUM_HALVES)]

    def run(num_calls: int) -> int:
        step, choose = batch.step, batch.random_actions
        for call in range(num_calls):
            half = halves[call % NUM_HALVES]
            step(choose()[half], half)
        return num_calls * size

    return run


def workloads(game: str, batch: int) -> Iterator[Workload]:
    """List what is measured."""
    if batch >= MIN_BATCH:
        yield Workload(
            game=game,
            batch=batch,
            variant="actions given by the caller",
            observed=True,
            make=lambda: given(game, batch),
        )
    if batch == HALVED_BATCH and game == "connect_four":
        yield Workload(
            game=game,
            batch=batch,
            variant="a random half stepped",
            observed=True,
            make=lambda: halved(game, batch),
        )


if __name__ == "__main__":
    drive("earl", "earl-envs", workloads)
