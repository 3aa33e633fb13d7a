"""Time the test command of the README on this machine, quick and slow tests apart.

`--quick` leaves the slow tests out and the stored file alone.
"""

import argparse
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarking import ROOT, STORE, Figure, report

_QUICK_S = 8 * 60
_WHOLE_S = 45 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What became of one run of pytest."""

    wall_s: float
    exit_status: int
    output: str


def count_outcomes(output: str) -> dict[str, int]:
    """Read how many tests passed, failed or broke from the last line that pytest prints."""
    last = output.rstrip().rpartition("\n")[2]
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", last)}


def suite_figures(name: str, run: Ran, *, goal: str) -> dict[str, Figure]:
    """Judge one run of pytest; it counts as whole only if pytest itself says so."""
    counts = count_outcomes(run.output)
    return {
        f"{name}_wall": Figure(value=run.wall_s, unit="s", goal=goal),
        f"{name}_exit_status": Figure(value=run.exit_status, unit="", goal="== 0"),
        f"{name}_failed": Figure(value=counts.get("failed", 0), unit="tests", goal="== 0"),
        f"{name}_errors": Figure(value=counts.get("error", 0), unit="tests", goal="== 0"),
        f"{name}_passed": Figure(value=counts.get("passed", 0), unit="tests", goal="> 0"),
    }


def run_pytest(selection: str) -> Ran:
    """Run the tests that a `-m` expression selects."""
    start = time.perf_counter()
    result = subprocess.run(
        [Path(sys.executable).with_name("pytest"), "-q", "-m", selection, "--durations=15"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_WHOLE_S,
    )
    print(result.stdout[-4000:])
    return Ran(
        wall_s=time.perf_counter() - start, exit_status=result.returncode, output=result.stdout
    )


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without slow tests; needs --out")
    parser.add_argument("--out", type=Path, default=None, help="where to store the JSON")
    arguments = parser.parse_args()
    if arguments.quick and arguments.out is None:
        parser.error("--quick needs --out, since the stored file is of a full run")
    quick = run_pytest("not slow")
    figures = suite_figures("quick_tests", quick, goal=f"<= {_QUICK_S}")
    if not arguments.quick:
        # The two selections are the suite; together they collect it once more than it would.
        slow = run_pytest("slow")
        figures |= suite_figures("slow_tests", slow, goal="")
        whole = quick.wall_s + slow.wall_s
        figures["all_tests_wall"] = Figure(value=whole, unit="s", goal=f"<= {_WHOLE_S}")
    report(figures, [], target=arguments.out or STORE / "tests.json")


if __name__ == "__main__":
    main()
