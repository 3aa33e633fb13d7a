"""Running the drivers: ours in this environment, every peer's in one of its own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PEERS: Mapping[str, Sequence[str]] = {
    "pettingzoo": ("pettingzoo[classic]==1.27.0",),
    "openspiel": ("open-spiel==2.0.2", "numpy"),
    "pgx": ("pgx==2.6.0", "jax==0.10.2"),
    "envpool": ("envpool==1.2.5",),
    "textarena": ("textarena==0.7.4",),
}
"""What is installed for each peer."""
_DRIVERS = Path(__file__).parent
_UV = os.environ.get("UV") or shutil.which("uv")
_IMPORT = (
    "import time; start = time.perf_counter(); import earl_envs; print(time.perf_counter() - start)"
)
_TIMEOUT_S = 600

Row = Mapping[str, Any]  # Any: numbers and words, as the drivers print them


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured."""

    games: Sequence[str]
    batches: Sequence[int]
    num_repeats: int
    min_s: float
    num_checked: int
    """Games of each kind that the conformance check looks at."""

    def flags(self, batches: Sequence[int] | None = None) -> list[str]:
        """Return it as a driver's options."""
        sizes = self.batches if batches is None else batches
        return [
            "--games", *self.games,
            "--batches", *map(str, sizes),
            "--repeats", str(self.num_repeats),
            "--seconds", str(self.min_s),
            "--checked", str(self.num_checked),
        ]  # fmt: skip


def num_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def run_driver(
    python: Path, name: str, flags: Sequence[str], *, cores: int, timeout_s: float = _TIMEOUT_S
) -> list[Row]:
    """Run a driver on so many cores and return its rows; none if it fails or takes too long.

    Raises:
        ValueError: If this process may not use so many cores.
    """
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    if len(allowed) < cores:
        raise ValueError(f"{name} needs {cores} cores, this process may use {len(allowed)}")
    try:
        result = subprocess.run(
            [python, _DRIVERS / f"drive_{name}.py", *flags],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            preexec_fn=lambda: os.sched_setaffinity(0, allowed),
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
    except subprocess.TimeoutExpired:
        print(f"{name} was given up after {timeout_s} s", file=sys.stderr)
        return []
    if result.returncode:
        print(f"{name} failed:\n{result.stderr[-2000:]}", file=sys.stderr)
        return []
    answer = json.loads(result.stdout.splitlines()[-1])
    known = {"peer": answer["peer"], "version": answer["version"], "cores": cores}
    return [{**known, **row} for row in answer["rows"]]


def run_peer(name: str, folder: Path, effort: Effort) -> list[Row]:
    """Install a peer and run its driver."""
    if _UV is None:
        raise SystemExit("uv is not on the path: pip install uv")
    place = folder / name
    python = place / "bin" / "python"
    commands = (
        [_UV, "venv", "--quiet", "--no-project", "--python", sys.executable, place],
        [_UV, "pip", "install", "--quiet", "--python", python, *PEERS[name]],
    )
    for command in commands:
        try:
            installed = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
            error = installed.stderr if installed.returncode else ""
        except subprocess.TimeoutExpired as expired:
            error = str(expired)
        if error:
            print(f"{name} cannot be installed:\n{error}", file=sys.stderr)
            return []
    return run_driver(python, name, effort.flags(), cores=1)


def import_times(num_times: int) -> list[float]:
    """Return how many seconds the package takes to import in fresh interpreters."""
    command = [sys.executable, "-c", _IMPORT]
    runs = (subprocess.run(command, capture_output=True, check=True) for _ in range(num_times))
    return [float(run.stdout) for run in runs]
