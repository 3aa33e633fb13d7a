"""A run small enough to repeat: a width of 32, a few games a step, no W&B.

The trainer is imported where it is used, so that tests of the other packages stay light.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from beartype import BeartypeConf
from beartype.claw import beartype_packages
from jaxtyping import install_import_hook

# Also for the runs that tests start: tests stand side by side, and with more threads than cores
# those of one run wait for one another, spinning.
os.environ.setdefault("OMP_NUM_THREADS", "1")

PACKAGES = ("earl_envs", "earl_dispatch", "earl_selector", "earl_trainer")


def modules_with(*words: str) -> Iterator[str]:
    """Name the modules of the packages in whose source one of the words stands."""
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None
        (root,) = map(Path, spec.submodule_search_locations or ())
        for path in root.rglob("*.py"):
            text = path.read_text()
            if any(word in text for word in words):
                yield ".".join((package, *path.relative_to(root).with_suffix("").parts))


# Every call is checked against its annotations, shapes only where there are any: that takes ten
# times as long as a check of types, far too long for the rules of a game. Numba and Ray look into
# functions and classes and cannot have them wrapped, and a type that is imported late is not found.
install_import_hook([*modules_with("jaxtyping")], "beartype.beartype")
beartype_packages(
    PACKAGES,
    conf=BeartypeConf(
        claw_is_pep526=False,
        claw_skip_package_names=(
            *modules_with("numba", "compiled import", "import ray", ".remote("),
            "earl_trainer.cli.profile",
        ),
    ),
)

SMALL = {
    "model": {"hidden_size": 32, "num_layers": 2, "num_heads": 2},
    "warmup": {"num_steps": 6, "num_episodes": 16, "lr_warmup_steps": 2},
    "rollout": {"num_episodes": 16, "group_size": 4},
    "learner": {"num_steps": 4, "lr_warmup_steps": 1},
    "evaluation": {"num_games": 20},
    "tracking": {"wandb": "disabled"},
}


class SilentDisplay:
    """Shows nothing, remembers what it was told, and can act when a stage of a step begins."""

    def __init__(self, on_stage: Callable[[int, str], None] = lambda step, stage: None) -> None:
        self.notes: list[str] = []
        self.step = 0
        self._on_stage = on_stage

    def log_step(self, record: Any) -> None:
        self.step = record.step + 1

    def log_evaluation(self, name: str, step: int, result: Any) -> None:
        self.notes.append(f"evaluation {name} before step {step}")

    def log_checkup(self, checkup: Any) -> None:
        self.notes.append(checkup.describe())

    def log_results(self, results: Any, picture: Path) -> None:
        self.notes.append(f"results and {picture.name}")

    def stage(self, name: str, detail: str = "") -> None:
        self._on_stage(self.step, name)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def close(self) -> None:
        pass


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_arrives():
    """Take SIGINT as in a terminal: a shell starts its background jobs with the signal ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def one_thread():
    """Take back what a run before has set: with two threads each, two processes wait spinning."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture
def small_config():
    """Make a small run's config, with further nested values laid over it."""
    from earl_trainer.config import RunConfig
    from earl_trainer.overrides import resolve

    return lambda *overrides: resolve(RunConfig(), SMALL, *overrides)


@pytest.fixture
def open_run():
    """Assemble a run that shows nothing."""
    from earl_trainer.assemble import assemble_run
    from earl_trainer.models.load import quieten_library

    quieten_library()

    def open_(config, folder: Path, *, resume=False, display: SilentDisplay | None = None):
        return assemble_run(config, folder, resume=resume, display=display or SilentDisplay())

    return open_


@pytest.fixture
def repeatable_rows() -> Callable[[Path], list[dict[str, Any]]]:
    """Read a run's steps without times and rates, which alone may differ between equal runs."""

    def read(folder: Path) -> list[dict[str, Any]]:
        timed = ("time/", "rate/", "selector/decision")
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        return [
            {key: value for key, value in row.items() if not key.startswith(timed)}
            for row in rows
            if "phase" in row
        ]

    return read


@pytest.fixture
def silent_display() -> type[SilentDisplay]:
    return SilentDisplay
