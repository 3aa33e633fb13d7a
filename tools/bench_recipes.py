"""Run the recipes as a user does and measure learning, time, memory and repeatability.

`--recipes` measures some anew and keeps what is stored of the others. `--quick` makes a few steps
of the small recipe only and leaves the stored file alone.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
from benchmarking import STORE, Figure, environment, report, store
from recipe_figures import FIGURE_PREFIX, JUDGES, TINY, Measured

EARL = Path(sys.executable).with_name("earl")
# The first seed twice, since runs of one seed have to be identical.
SEEDS: Mapping[str, Sequence[int]] = {**dict.fromkeys(JUDGES, (0,)), TINY: (0, 0, 1, 2)}
QUICK_FLAGS = (
    "--warmup.num-steps",
    "5",
    "--learner.num-steps",
    "3",
    "--evaluation.num-games",
    "40",
    # Ranks of their own take longer to start than these steps do.
    "--selector.num-devices",
    "1",
    "--selector.tp-degrees",
    "1",
)
# Reading it stops a process for a moment.
_SAMPLE_EVERY_S = 2.0
_TIMED = ("time/", "rate/", "selector/decision")


def run_recipe(recipe: str, seed: int, flags: Sequence[str], folder: Path) -> Measured:
    """Run a recipe in a process of its own and watch the memory of the whole process tree."""
    run_dir = folder / f"{recipe}-{seed}-{len(list(folder.iterdir()))}"
    command = [EARL, "train", recipe, "--seed", str(seed), "--run-dir", run_dir, *flags]
    wall_s, peak_bytes = run_watched(command)
    return Measured(
        recipe=recipe,
        seed=seed,
        wall_s=wall_s,
        peak_bytes=peak_bytes,
        summary=json.loads((run_dir / "summary.json").read_text()),
        repeatable_rows=[
            {key: value for key, value in row.items() if not key.startswith(_TIMED)}
            for row in map(json.loads, (run_dir / "metrics.jsonl").read_text().splitlines())
        ],
    )


def run_watched(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None
) -> tuple[float, int]:
    """Run a command to its end; return its seconds and the memory of its process tree at most.

    Raises:
        SystemExit: If it ends with a status other than 0.
    """
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    peak_bytes = 0
    while process.poll() is None:
        peak_bytes = max(peak_bytes, tree_bytes(process.pid))
        time.sleep(_SAMPLE_EVERY_S)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with status {process.returncode}")
    return time.perf_counter() - start, peak_bytes


def tree_bytes(pid: int) -> int:
    """Return the memory of a process and all that it started, as far as they still run.

    Pages that several of them share count once in the sum: ranks and agents map the same libraries,
    as much of them as the machine happens to hold in its cache.
    """
    try:
        root = psutil.Process(pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    return sum(map(proportional_bytes, processes))


def proportional_bytes(process: psutil.Process) -> int:
    """Return a process's resident memory, of shared pages its part; 0 if it has ended since."""
    try:
        return process.memory_full_info().pss
    except psutil.NoSuchProcess:
        return 0


def kept_results(
    target: Path, *, without: Sequence[str]
) -> tuple[dict[str, Figure], list[Mapping[str, object]]]:
    """Read the stored figures and rows of the recipes that are not measured anew."""
    if not target.exists():
        return {}, []
    stored = json.loads(target.read_text())
    dropped = tuple(f"{FIGURE_PREFIX[recipe]}_" for recipe in without)
    figures = {
        name: Figure(value=figure["value"], unit=figure["unit"], goal=figure["goal"])
        for name, figure in stored["figures"].items()
        if not name.startswith(dropped)
    }
    return figures, [row for row in stored["rows"] if row["recipe"] not in without]


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few steps; needs --out")
    parser.add_argument("--out", type=Path, default=None, help="where to store the JSON")
    parser.add_argument("--recipes", nargs="+", choices=list(SEEDS), default=list(SEEDS))
    arguments = parser.parse_args()
    if arguments.quick and arguments.out is None:
        parser.error("--quick needs --out, since the stored file is of a full run")
    recipes: list[str] = [TINY] if arguments.quick else arguments.recipes
    flags = QUICK_FLAGS if arguments.quick else ()
    target: Path = arguments.out or STORE / "recipes.json"
    figures, rows = kept_results(target, without=recipes)
    with tempfile.TemporaryDirectory() as name:
        for recipe in recipes:
            seeds = (0, 0) if arguments.quick else SEEDS[recipe]
            runs = [run_recipe(recipe, seed, flags, Path(name)) for seed in seeds]
            figures |= JUDGES[recipe](runs)
            # Rows of a recipe that is not measured now keep their own date.
            rows += [{**run.row(), "date": environment()["date"]} for run in runs]
            store(figures, rows, target=target)
    report(figures, rows, target=target)


if __name__ == "__main__":
    main()
