"""What every driver shares: options, timing and the form of its answer."""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

GAMES = ("tic_tac_toe", "connect_four", "othello")
_MIN_CHUNK_S = 0.02
_MAX_CALLS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to measure and how long."""

    games: Sequence[str]
    batches: Sequence[int]
    num_repeats: int
    min_s: float
    """Time of one repeat."""
    num_checked: int
    """Games of each kind that the conformance check looks at."""


Run = Callable[[int], int]
"""Makes so many calls and returns how many moves these were, of one player in one game each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Something whose moves are counted and timed."""

    game: str
    batch: int
    """Games played at once."""
    variant: str
    """How the library is used."""
    observed: bool
    """Whether every move comes with the observation and the mask of the next."""
    make: Callable[[], Run]
    """Sets everything up."""


def drive(peer: str, package: str, workloads: Callable[[str, int], Iterable[Workload]]) -> None:
    """Measure every workload of the games and batch sizes asked for, and print them as JSON."""
    options = parse_options()
    chosen = [
        workload
        for game in options.games
        for batch in options.batches
        for workload in workloads(game, batch)
    ]
    rows = [
        {
            "game": workload.game,
            "batch": workload.batch,
            "variant": workload.variant,
            "observed": workload.observed,
            **summary(rates(workload.make(), options)),
        }
        for workload in chosen
    ]
    answer(peer, package, rows)


def parse_options() -> Options:
    """Read what to measure and how long from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--games", nargs="+", default=list(GAMES))
    parser.add_argument("--batches", nargs="+", type=int, default=[1])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--checked", type=int, default=100)
    parsed = parser.parse_args()
    return Options(
        games=parsed.games,
        batches=parsed.batches,
        num_repeats=parsed.repeats,
        min_s=parsed.seconds,
        num_checked=parsed.checked,
    )


def rates(run: Run, options: Options) -> list[float]:
    """Return moves per second of several repeats after a warm-up."""
    num_calls = 1
    while True:
        start = time.perf_counter()
        run(num_calls)
        if time.perf_counter() - start >= _MIN_CHUNK_S or num_calls >= _MAX_CALLS:
            break
        num_calls *= 2
    measured: list[float] = []
    for _ in range(options.num_repeats):
        num_moves, start = 0, time.perf_counter()
        while (elapsed_s := time.perf_counter() - start) < options.min_s:
            num_moves += run(num_calls)
        measured.append(num_moves / elapsed_s)
    return measured


def summary(measured: Sequence[float]) -> dict[str, float]:
    """Return the median of some rates, and their range as a share of it."""
    median = statistics.median(measured)
    return {"moves_per_s": median, "spread": (max(measured) - min(measured)) / median}


def answer(peer: str, package: str, rows: Iterable[Mapping[str, object]]) -> None:
    """Print everything as one line of JSON."""
    print(json.dumps({"peer": peer, "version": version(package), "rows": list(rows)}))
