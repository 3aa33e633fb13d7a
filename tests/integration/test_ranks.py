"""The laws of a run also hold where ranks of their own generate, at a degree that changes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

EARL = Path(sys.executable).with_name("earl")
NUM_STEPS = 16
# Without a profile degrees are compared by an order that is not measured.
GROWING = (
    "--model.hidden-size", "32", "--model.num-layers", "2", "--model.num-heads", "2",
    "--warmup.num-steps", "4", "--warmup.num-episodes", "16", "--learner.num-steps", "12",
    "--rollout.num-episodes", "48", "--rollout.group-size", "4", "--rollout.games-ramp-steps", "8",
    "--evaluation.num-games", "20", "--tracking.wandb", "disabled", "--selector.profile", "none",
    "--tracking.checkpoint-every-steps", "5", "--selector.memory-bytes", "680000",
)  # fmt: skip


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    # One thread each, as everything else that runs beside.
    return subprocess.Popen(
        [EARL, "train", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def finish(process: subprocess.Popen[str]) -> None:
    output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert "Traceback" not in output + errors


def interrupt_at(step: int, process: subprocess.Popen[str], folder: Path) -> None:
    """Press Ctrl-C once so many steps are written, and wait for the end of all processes."""
    metrics, deadline = folder / "metrics.jsonl", time.monotonic() + 240
    while not (metrics.exists() and metrics.read_text().count('"phase"') >= step):
        assert time.monotonic() < deadline, "the steps took too long"
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) > 2, "ranks are processes"
    process.send_signal(signal.SIGINT)
    finish(process)
    _, alive = psutil.wait_procs(family, timeout=60)
    assert not alive


@pytest.mark.slow
def test_a_run_on_ranks_that_is_interrupted_and_resumed_is_the_run_that_was_not(
    tmp_path, repeatable_rows
):
    finish(start(*GROWING, "--run-dir", "whole", cwd=tmp_path))
    interrupt_at(7, start(*GROWING, "--run-dir", "parts", cwd=tmp_path), tmp_path / "parts")
    finish(start("--resume", "parts", cwd=tmp_path))

    whole, parts = repeatable_rows(tmp_path / "whole"), repeatable_rows(tmp_path / "parts")
    assert [row["step"] for row in whole] == list(range(NUM_STEPS))
    assert {row["selector/tp"] for row in whole} == {1.0, 2.0}
    for actual, expected in zip(parts, whole, strict=True):
        assert actual == expected
    evaluations = [
        json.loads((tmp_path / name / "summary.json").read_text())["evaluation"]
        for name in ("whole", "parts")
    ]
    assert evaluations[0] == evaluations[1]
