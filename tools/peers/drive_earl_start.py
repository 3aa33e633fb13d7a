"""This package in a fresh interpreter: time to the first step, and memory that a step takes."""

import time
import tracemalloc

START_S = time.perf_counter()

from driver import answer  # noqa: E402 - the clock runs before anything is imported
from earl_envs.batch import make_batch  # noqa: E402

BATCH_SIZE = 1024
NUM_STEPS = 20


def main() -> None:
    """Measure and print."""
    batch = make_batch(
        "earl/ConnectFour-v0", batch_size=BATCH_SIZE, seed=0, autoreset=True, backend="numba"
    )
    batch.step(batch.random_actions())
    first_step_s = time.perf_counter() - START_S
    tracemalloc.start()
    batch.step(batch.random_actions())
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    for _ in range(NUM_STEPS):
        batch.step(batch.random_actions())
    peak_bytes = tracemalloc.get_traced_memory()[1] - before
    row = {"game": "connect_four", "batch": BATCH_SIZE, "observed": True}
    started = {"variant": "start", "first_step_s": first_step_s, "step_bytes": peak_bytes}
    answer("earl", "earl-envs", [{**row, **started}])


if __name__ == "__main__":
    main()
