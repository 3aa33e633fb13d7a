"""A run of several workers is the run of one, and none of them outlives it."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path

import psutil
import pytest
import torch
from transformers import AutoModelForCausalLM

EARL = Path(sys.executable).parent / "earl"
SMALL = {
    "--selector.num-devices": "1",
    "--selector.tp-degrees": "1",
    "--rollout.games-per-episode": "1",
    "--rollout.games-ramp-steps": "0",
    "--model.hidden-size": "32",
    "--model.num-layers": "2",
    "--model.num-heads": "2",
    "--warmup.num-steps": "2",
    "--warmup.num-episodes": "16",
    "--rollout.num-episodes": "16",
    "--rollout.group-size": "8",
    "--learner.num-steps": "3",
    "--algorithm.kl-coefficient": "0.05",
    "--evaluation.num-games": "12",
    "--tracking.wandb": "disabled",
    "--tracking.checkpoint-every-steps": "2",
    "--dispatch.timeout-s": "120",
}


def command_of(run_dir, **flags):
    named = {name.replace("__", ".").replace("_", "-"): str(flags[name]) for name in flags}
    options = SMALL | {f"--{name}": value for name, value in named.items()}
    return [EARL, "train", "--run-dir", run_dir, *chain.from_iterable(options.items())]


def train(run_dir, **flags):
    result = subprocess.run(
        command_of(run_dir, **flags), capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def rows_of(run_dir):
    lines = (run_dir / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def episodes_of(run_dir):
    lines = (run_dir / "episodes.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("alone") / "run"
    train(run_dir)
    return run_dir


@pytest.mark.slow
@pytest.mark.parametrize(("players", "learners"), [(2, 2), (3, 1), (1, 2)])
def test_workers_play_the_episodes_and_learn_what_one_worker_does(
    alone, tmp_path, players, learners
):
    run_dir = tmp_path / "run"
    train(run_dir, rollout_workers=players, learner_workers=learners)

    assert episodes_of(run_dir) == episodes_of(alone)
    for mine, theirs in zip(rows_of(run_dir), rows_of(alone), strict=True):
        # What an engine holds, and so what the selector says, is a matter of how many there are.
        apart = ("time/", "rate/", "dispatch/", "selector/", "context/resident_tokens")
        for key in (key for key in theirs if not key.startswith(apart)):
            expected = theirs[key]
            assert mine[key] == (
                pytest.approx(expected, rel=1e-3, abs=1e-4)
                if isinstance(expected, float)
                else expected
            ), key
        if "phase" in mine:
            assert mine["dispatch/bytes_moved"] == mine["dispatch/bytes_lower_bound"]
            # Whole rows move; their tokens take 20 bytes and a bit each, their own values 8.
            row_bytes = mine["context/max_tokens"] * 21 + 8
            assert abs(mine["dispatch/bytes_over_minimum"]) <= 2 * 2 * players * row_bytes
            assert mine["time/dispatch_floor_s"] >= 0.0
    moved = [row["dispatch/bytes_moved"] for row in rows_of(run_dir) if "phase" in row]
    assert sum(moved) > 0
    models = [
        AutoModelForCausalLM.from_pretrained(folder / "model").state_dict()
        for folder in (run_dir, alone)
    ]
    assert all(torch.allclose(models[0][name], models[1][name], atol=1e-3) for name in models[0])


def start(run_dir, **flags):
    """Start a run and return it once its workers have done a step."""
    process = subprocess.Popen(
        command_of(run_dir, learner__num_steps=500, **flags),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    deadline_s = time.monotonic() + 120.0
    while not (run_dir / "metrics.jsonl").exists() or len(rows_of(run_dir)) < 3:
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline_s
        time.sleep(0.2)
    return process


def workers_of(process):
    """The other workers, who alone compute besides the first."""
    return [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if "spawn_main" in " ".join(child.cmdline())
    ]


def end(process, timeout_s):
    output, _ = process.communicate(timeout=timeout_s)
    return process.returncode, output


@pytest.mark.slow
def test_a_killed_worker_ends_the_run_with_its_name(tmp_path):
    process = start(tmp_path / "run", rollout_workers=4, learner_workers=2)
    workers = sorted(workers_of(process), key=lambda worker: worker.create_time())
    assert len(workers) == 3
    workers[2].kill()
    status, output = end(process, 60)

    assert status == 1
    assert "earl: worker 3 ended with exit status -9 in the middle of the run" in output
    assert "Traceback" not in output
    assert not any(worker.is_running() for worker in workers)


@pytest.mark.slow
def test_workers_end_with_a_first_that_is_killed(tmp_path):
    process = start(tmp_path / "run", rollout_workers=2)
    workers = workers_of(process)
    process.kill()
    process.communicate(timeout=60)
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive


@pytest.mark.slow
def test_ctrl_c_saves_and_another_number_of_workers_goes_on(tmp_path):
    run_dir = tmp_path / "run"
    process = start(run_dir, rollout_workers=2, learner_workers=1)
    workers = workers_of(process)
    # As a terminal does: to all processes of the foreground.
    os.killpg(process.pid, signal.SIGINT)
    status, output = end(process, 60)

    assert status == 0, output
    assert f"go on with: earl train --resume {run_dir}" in output
    assert "Traceback" not in output
    assert not any(worker.is_running() for worker in workers)
    saved = max(int(path.name[5:]) for path in (run_dir / "checkpoints").glob("step-*"))
    command = [EARL, "train", "--resume", run_dir, "--learner-workers", "3"]
    command += ["--learner.num-steps", str(max(1, saved - 2) + 1)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    steps = [row["step"] for row in rows_of(run_dir) if "phase" in row]
    assert steps == list(range(steps[-1] + 1))
