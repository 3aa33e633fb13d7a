"""Time the test command of the README on this machine.

`--quick` leaves the slow tests out and the stored file alone.
"""

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarking import ROOT, STORE, Figure, report

_TIMEOUT_S = 45 * 60


def count_outcomes(output: str) -> dict[str, int]:
    """Read how many tests passed, failed or broke from the last line that pytest prints."""
    last = output.rstrip().rpartition("\n")[2]
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", last)}


def suite_figures(wall_s: float, exit_status: int, counts: Mapping[str, int]) -> dict[str, Figure]:
    """Judge one run of the suite; it counts as whole only if pytest itself says so."""
    return {
        "suite_wall": Figure(value=wall_s, unit="s", goal="<= 480"),
        "suite_exit_status": Figure(value=exit_status, unit="", goal="== 0"),
        "suite_failed": Figure(value=counts.get("failed", 0), unit="tests", goal="== 0"),
        "suite_errors": Figure(value=counts.get("error", 0), unit="tests", goal="== 0"),
        "suite_passed": Figure(value=counts.get("passed", 0), unit="tests", goal="> 0"),
    }


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without slow tests; needs --out")
    parser.add_argument("--out", type=Path, default=None, help="where to store the JSON")
    arguments = parser.parse_args()
    if arguments.quick and arguments.out is None:
        parser.error("--quick needs --out, since the stored file is of a full run")
    selection = ["-m", "not slow"] if arguments.quick else []
    start = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *selection],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    wall_s = time.perf_counter() - start
    print(result.stdout[-2000:])
    figures = suite_figures(wall_s, result.returncode, count_outcomes(result.stdout))
    report(figures, [], target=arguments.out or STORE / "tests.json")


if __name__ == "__main__":
    main()
