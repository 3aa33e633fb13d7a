"""Measure what each algorithm learns on Tic-Tac-Toe from the same warm-up and as many games.

    python tools/bench_algorithms.py [--again NAME ...] [--long] [--quick --out FILE]

A small model imitates random legal play, once per seed; from there every algorithm plays as many
episodes against the random opponent, on one core. Rows are stored after each run, and a run whose
row is there is not made again unless `--again` names its algorithm, so that what was broken off
goes on where it stood. Win rates pool the seeds.

`--long` trains the algorithm with the highest of these win rates against the solver that chooses
uniformly among optimal moves, and RAE against itself, who never meets the solver before the match
at the end: 1,000 games from each seat, in which the model takes its most likely reply.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from algorithm_runs import Budget, Plan, Row, run_long, run_plan, warm_up
from algorithms_plot import draw_algorithms
from algorithms_pool import Pooled, pool
from benchmarking import STORE, Figure, report, store
from earl_trainer.algorithms.losses import negative_log_likelihood
from earl_trainer.algorithms.table import ALGORITHMS

REINFORCING = tuple(
    name for name, each in ALGORITHMS.items() if each.loss is not negative_log_likelihood
)
MUST_IMPROVE = ("ppo", "grpo", "rloo", "remax", "dapo", "gspo", "cispo")
SEEDS = (0, 1, 2)
FULL, QUICK = Budget(), Budget(warmup_steps=2, num_steps=2, num_episodes=16, num_games=8)
_LONG_FLAGS = (
    "--warmup.num-steps", "300",
    "--learner.num-steps", "600",
    "--model.hidden-size", "128",
    "--rollout.num-episodes", "256",
    "--rollout.group-size", "16",
    "--evaluation.opponent", "perfect",
    "--evaluation.num-games", "2000",
    "--evaluation.temperature", "0",
)  # fmt: skip
SELF_PLAY = ("--algorithm.name", "rae", "--opponent", "self")


def missing(plans: Sequence[Plan], rows: Sequence[Row]) -> list[Plan]:
    """Return the runs that have no row yet."""
    known = [(row["algorithm"], row["seed"], row["budget"]) for row in rows if "long" not in row]
    return [plan for plan in plans if tuple(plan.key.values()) not in known]


def measure_table(
    plans: Sequence[Plan],
    *,
    warm_up: Callable[[int, Budget], Path],
    run: Callable[[Plan, Path], Row],
    keep: Callable[[Row], None],
    num_jobs: int,
) -> None:
    """Make runs, some at once, each from its seed's warm-up; every finished one is kept at once."""
    with ThreadPoolExecutor(num_jobs) as jobs:
        warm_ups = {(plan.seed, plan.budget): None for plan in plans}
        folders = jobs.map(warm_up, *zip(*warm_ups, strict=True))
        models = dict(zip(warm_ups, folders, strict=True))
        runs = [jobs.submit(run, plan, models[plan.seed, plan.budget]) for plan in plans]
        try:
            for finished in as_completed(runs):
                keep(finished.result())
        except BaseException:
            # What has not begun would only delay the error.
            jobs.shutdown(cancel_futures=True)
            raise


def long_plans(rows: Sequence[Row]) -> dict[str, Sequence[str]]:
    """Return the flags of the long runs.

    Raises:
        ValueError: If there is no row to find the best algorithm in.
    """
    pooled = pool(rows)
    if not pooled:
        raise ValueError("the long run is of the best algorithm of the table, which has no row yet")
    best = max(pooled, key=lambda each: each.after.rate).algorithm
    return {
        "solver": ("--algorithm.name", best, "--opponent", "perfect", *_LONG_FLAGS),
        "self-play": (*SELF_PLAY, *_LONG_FLAGS),
    }


def figures_of(rows: Sequence[Row]) -> dict[str, Figure]:
    """Judge the rows of the table and of the long runs."""
    figures: dict[str, Figure] = {}
    for each in pool([row for row in rows if "algorithm" in row]):
        goal = "> 0" if each.algorithm in MUST_IMPROVE else ""
        figures |= _table_figures(each, goal)
    for row in (row for row in rows if "long" in row):
        name = row["long"].replace("-", "_")
        for seat in ("first", "second"):
            figures[f"{name}_draws_as_{seat}"] = Figure(
                value=row[seat]["draws"] / row[seat]["games"], unit="of games", goal=">= 0.95"
            )
        figures[f"{name}_wall"] = Figure(value=row["wall_s"] / 60, unit="min", goal="")
    return figures


def _table_figures(each: Pooled, goal: str) -> dict[str, Figure]:
    name = each.algorithm.replace("-", "_").replace("+", "p")
    gap = each.after.low - each.before.high
    return {
        f"{name}_win_rate": Figure(value=each.after.rate, unit="of games", goal=""),
        f"{name}_gap_between_intervals": Figure(value=gap, unit="", goal=goal),
    }


def read_rows(target: Path) -> list[Row]:
    """Return the stored rows, if there are any."""
    if not target.exists():
        return []
    stored: Mapping[str, Any] = json.loads(target.read_text())
    return list(stored["rows"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, print, draw and store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--again", nargs="+", choices=REINFORCING, default=[])
    parser.add_argument("--long", action="store_true", help="the long runs, not the table")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once, a core for each")
    parser.add_argument("--quick", action="store_true", help="a few steps of two; needs --out")
    parser.add_argument("--out", type=Path, default=None, help="where to store the JSON")
    chosen = parser.parse_args(arguments)
    if chosen.quick and chosen.out is None:
        parser.error("--quick needs --out FILE: the stored file is of a full run")
    target: Path = chosen.out or STORE / "algorithms.json"
    budget = QUICK if chosen.quick else FULL
    rows = [
        row
        for row in read_rows(target)
        if "long" in row
        or (row["algorithm"] not in chosen.again and row["budget"] == asdict(budget))
    ]

    def keep(row: Row) -> None:
        rows.append(row)
        store(figures_of(rows), rows, target=target)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if chosen.long:
            flags = long_plans([row for row in rows if "algorithm" in row])
            rows = [row for row in rows if "long" not in row]
            for label in flags:
                keep(run_long(label, flags[label], folder))
        else:
            names, seeds = (REINFORCING[:2], SEEDS[:1]) if chosen.quick else (REINFORCING, SEEDS)
            plans = [
                Plan(algorithm=algorithm, seed=seed, budget=budget)
                for seed, algorithm in product(seeds, names)
            ]
            measure_table(
                missing(plans, rows),
                warm_up=partial(warm_up, folder=folder),
                run=partial(run_plan, folder=folder),
                keep=keep,
                num_jobs=chosen.jobs,
            )
    draw_algorithms([row for row in rows if "algorithm" in row], target.with_suffix(".png"))
    report(figures_of(rows), rows, target=target)


if __name__ == "__main__":
    main()
