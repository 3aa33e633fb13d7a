"""Asynchronous runs that lose a worker, are stopped, or killed: no group is lost or used twice."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import chain
from pathlib import Path

import psutil
import pytest
from earl_trainer.launch import run_to_end
from earl_trainer.overrides import read_run_config
from earl_trainer.phases import RL

pytestmark = pytest.mark.slow

EARL = Path(sys.executable).with_name("earl")
ETA, NUM_STEPS = 2, 12
NUM_EPISODES, GROUP_SIZE = 16, 4
BATCH = NUM_EPISODES // GROUP_SIZE
SMALL = {
    "--max-staleness": str(ETA),
    "--model.hidden-size": "32",
    "--model.num-layers": "2",
    "--model.num-heads": "2",
    "--warmup.num-steps": "0",
    "--rollout.num-episodes": str(NUM_EPISODES),
    "--rollout.group-size": str(GROUP_SIZE),
    "--learner.num-steps": "100000",
    "--evaluation.num-games": "4",
    "--tracking.wandb": "disabled",
    "--tracking.checkpoint-every-steps": "2",
}


def rows_of(run_dir, name):
    lines = (run_dir / f"{name}.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row.get("phase") == RL]


def assert_conserved(run_dir, num_steps):
    """Every group of the run was trained on once or is still under way, at every step."""
    steps = rows_of(run_dir, "metrics")
    assert [row["step"] for row in steps] == list(range(num_steps))
    for done, row in enumerate(steps, start=1):
        count = {
            name.removeprefix("async/").removesuffix("_groups"): value
            for name, value in row.items()
            if name.startswith("async/") and name.endswith("_groups")
        }
        assert count["submitted"] == count["accepted"] + count["rejected"] + count["running"]
        assert count["accepted"] == count["consumed"] + count["queued"] + count["dropped"]
        assert count["consumed"] == BATCH * done
        # All the room that the weights of the step allow is used, and no more.
        in_room = count["submitted"] - count["rejected"] - count["dropped"]
        assert in_room == (row["step"] + ETA + 1) * BATCH

    episodes = [row["episode"] for row in rows_of(run_dir, "episodes")]
    assert len(episodes) == len(set(episodes)) == NUM_EPISODES * num_steps
    consumed = {episode // GROUP_SIZE for episode in episodes}
    checkpoint = run_dir / "checkpoints" / f"step-{num_steps:06d}"
    collection = json.loads((checkpoint / "state.json").read_text())["collection"]
    assert len(consumed) == collection["num_consumed"] == BATCH * num_steps
    assert consumed.isdisjoint(collection["again"])
    assert consumed | set(collection["again"]) == set(range(collection["first"]))


def test_a_run_goes_on_with_another_worker_in_place_of_one_that_was_killed_or_with_the_rest(
    small_config, open_run, silent_display, tmp_path
):
    config = small_config({
        "max_staleness": ETA,
        "warmup": {"num_steps": 0},
        "rollout": {"num_episodes": NUM_EPISODES, "group_size": GROUP_SIZE},
        "learner": {"num_steps": NUM_STEPS},
        "evaluation": {"num_games": 4},
        "asynchronous": {"num_workers": 2, "max_restarts": 1},
    })

    victims = {2: 1, 7: 0}

    def act(step, stage):
        if stage == "update" and step in victims:
            os.kill(run.stages.collection._workers.pids()[victims.pop(step)], signal.SIGKILL)

    display = silent_display(act)
    run = open_run(config, tmp_path, display=display)
    assert run_to_end(run) == 0

    first, second = (note for note in display.notes if "is gone" in note)
    assert first.startswith("rollout worker 1 is gone: its process has ended; it is started anew")
    assert second.startswith("rollout worker 0 is gone: its process has ended; the others play its")
    assert_conserved(tmp_path, NUM_STEPS)


def start(run_dir, *, num_steps):
    """Start a run of its own, as from a terminal; return it and its workers after some steps."""
    process = subprocess.Popen(
        [EARL, "train", "tictactoe-async", "--run-dir", run_dir, *chain(*SMALL.items())],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    deadline_s = time.monotonic() + 180.0
    while not (run_dir / "metrics.jsonl").exists() or len(rows_of(run_dir, "metrics")) < num_steps:
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    children = psutil.Process(process.pid).children(recursive=True)
    workers = [child for child in children if "ray::_Actor" in " ".join(child.cmdline())]
    assert len(workers) == 1
    return process, workers


def resume(run_dir, open_run, *, num_more):
    """Go on from the last checkpoint to an end that comes soon; return the steps of the whole."""
    saved = max(
        int(path.name.removeprefix("step-")) for path in (run_dir / "checkpoints").glob("step-*")
    )
    config = read_run_config(run_dir)
    longer = replace(config, learner=replace(config.learner, num_steps=saved + num_more))
    assert run_to_end(open_run(longer, run_dir, resume=True)) == 0
    return saved + num_more


def test_ctrl_c_saves_soon_and_what_was_under_way_is_played_again(open_run, tmp_path):
    run_dir = tmp_path / "run"
    process, workers = start(run_dir, num_steps=4)
    start_s = time.monotonic()
    # As a terminal does: to all processes of the foreground.
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert time.monotonic() - start_s < 10.0
    assert process.returncode == 0, output
    assert f"go on with: earl train --resume {run_dir}" in output
    assert "Traceback" not in output
    assert "is gone" not in output
    _, alive = psutil.wait_procs(workers, timeout=5.0)
    assert not alive
    assert_conserved(run_dir, resume(run_dir, open_run, num_more=3))


def test_a_run_that_was_killed_goes_on_from_its_last_checkpoint(open_run, tmp_path):
    run_dir = tmp_path / "run"
    process, workers = start(run_dir, num_steps=5)
    process.kill()
    process.communicate(timeout=60)
    _, alive = psutil.wait_procs(workers, timeout=20.0)
    assert not alive
    assert_conserved(run_dir, resume(run_dir, open_run, num_more=3))
