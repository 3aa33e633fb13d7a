"""What a second core brings, in rounds of one core and two that follow at once on one another.

Whatever else the machine does in the meantime then meets both. Beside the games stands arithmetic
in registers, divided into as short pieces: what the machine itself gives of a second core.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import numba
from drive_earl import loop
from driver import Options, Run, answer, parse_options

_NUM_ROUNDS = 31
_ROUND_S = 0.1
_PIECES = 64
_PIECE_STEPS = 3000
"""Of arithmetic: all pieces take as long as a step of 16,384 games, about 0.2 ms."""


@numba.njit(parallel=True)
def compute(pieces: int, steps: int) -> int:  # pragma: no cover - compiled
    """Do arithmetic that needs no memory."""
    total = 0
    for piece in numba.prange(pieces):
        value = piece + 1
        for _ in range(steps):
            value ^= value << 13
            value ^= value >> 7
            value ^= value << 17
        total += value & 1
    return total


def arithmetic() -> Run:
    """Do all pieces in every call."""

    def run(num_calls: int) -> int:
        for _ in range(num_calls):
            compute(_PIECES, _PIECE_STEPS)
        return num_calls

    return run


def rate(run: Run, num_threads: int, seconds: float) -> float:
    """Return how much is done in a second by so many threads."""
    numba.set_num_threads(num_threads)
    run(1)
    done, start_s = 0, time.perf_counter()
    while (elapsed_s := time.perf_counter() - start_s) < seconds:
        done += run(8)
    return done / elapsed_s


def compare(make: Callable[[], Run], *, num_rounds: int, seconds: float) -> dict[str, float]:
    """Return the median over the rounds of two threads' rate over one's, and both rates."""
    run = make()
    rounds = [tuple(rate(run, threads, seconds) for threads in (1, 2)) for _ in range(num_rounds)]
    ratios = sorted(two / one for one, two in rounds)
    return {
        "scaling": median(ratios),
        "quartile_low": ratios[len(ratios) // 4],
        "quartile_high": ratios[-1 - len(ratios) // 4],
        "moves_per_s": median(two for _, two in rounds),
        "moves_per_s_one_core": median(one for one, _ in rounds),
    }


def rows(options: Options) -> Iterator[dict[str, object]]:
    """Measure every game at every size, and the arithmetic."""
    num_rounds = 3 if options.min_s < _ROUND_S else _NUM_ROUNDS
    measure = partial(compare, num_rounds=num_rounds, seconds=min(options.min_s, _ROUND_S))
    for game in options.games:
        for batch in options.batches:
            found = measure(partial(loop, game, batch))
            yield {"game": game, "batch": batch, "variant": "two cores", "observed": True, **found}
    yield {
        "game": "arithmetic",
        "batch": _PIECES,
        "variant": "two cores",
        "observed": False,
        **measure(arithmetic),
    }


if __name__ == "__main__":
    answer("earl", "earl-envs", rows(parse_options()))
