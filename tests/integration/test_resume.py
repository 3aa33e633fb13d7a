"""A run that is interrupted and resumed is the run that was not."""

import json
import signal
from pathlib import Path

import pytest
import torch
from earl_trainer.launch import run_to_end
from earl_trainer.loop import train_step
from earl_trainer.staging import enter
from safetensors.torch import load_file

NUM_STEPS = 10
ADAPTED_PENALTY = {"kl_coefficient": 0.05, "kl_in": "reward", "kl_target": 0.01}


def press_ctrl_c_at(step, stage, display_type):
    """Make a display that presses Ctrl-C once, as a stage of a step begins."""
    pending = [(step, stage)]

    def press(now, name):
        if pending and (now, name) == pending[0]:
            pending.clear()
            signal.raise_signal(signal.SIGINT)

    return display_type(press)


def final_files(folder: Path):
    checkpoint = folder / "checkpoints" / f"step-{NUM_STEPS:06d}"
    summary = json.loads((folder / "summary.json").read_text())
    state = json.loads((checkpoint / "state.json").read_text())
    del state["files"]  # sizes of files that hold times, which differ
    return (
        load_file(folder / "model" / "model.safetensors"),
        torch.load(checkpoint / "learner.pt"),
        state,
        summary["evaluation"],
        [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()],
    )


MEASURED = {"rollout_s", "switch_s", "time_scale"}
"""What the selector remembers of times, which no two runs share."""


def assert_same(actual, expected):
    """Compare nested values, tensors bit for bit."""
    assert type(actual) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert torch.equal(actual, expected)
    elif isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key in expected.keys() - MEASURED:
            assert_same(actual[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected)
        for left, right in zip(actual, expected, strict=True):
            assert_same(left, right)
    else:
        assert actual == expected


@pytest.mark.parametrize(
    ("step", "stage", "saved_step", "algorithm"),
    [
        (4, "rollout", 4, {}),  # dropped: nothing had changed yet
        (3, "update", 4, {}),  # weights were about to change: the step is finished first
        (6, "match", 6, {}),  # between the phases
        (7, "prepare", 7, {"kl_coefficient": 0.05}),  # in the second phase, with a reference model
        # With a critic, and a penalty whose weight moves.
        (8, "rollout", 8, {"name": "ppo", **ADAPTED_PENALTY}),
    ],
)
def test_ten_steps_equal_some_then_resume_then_the_rest(
    step, stage, saved_step, algorithm, tmp_path, small_config, open_run, silent_display,
    repeatable_rows,
):  # fmt: skip
    config = small_config({"algorithm": algorithm})
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run_to_end(open_run(config, whole)) == 0

    display = press_ctrl_c_at(step, stage, silent_display)
    assert run_to_end(open_run(config, parts, display=display)) == 0
    assert f"interrupted: {saved_step} steps are saved" in display.notes[-2]
    assert len(repeatable_rows(parts)) == saved_step
    assert not (parts / "summary.json").exists()
    assert run_to_end(open_run(config, parts, resume=True)) == 0

    assert repeatable_rows(parts) == repeatable_rows(whole)
    assert len(repeatable_rows(whole)) == NUM_STEPS
    for actual, expected in zip(final_files(parts), final_files(whole), strict=True):
        assert_same(actual, expected)


def test_rows_written_after_the_checkpoint_are_dropped_on_resume(
    tmp_path, small_config, open_run, repeatable_rows
):
    config = small_config({"tracking": {"checkpoint_every_steps": 4}})
    run = open_run(config, tmp_path / "run")

    # Gone without a word two steps after its last checkpoint.
    warmup = run.phases[0]
    run.evaluate(warmup.evaluation)
    stages = enter(run, warmup)
    for _ in range(6):
        train_step(run, warmup, stages)
    run.tracker.close()
    assert len(repeatable_rows(tmp_path / "run")) == 6

    assert run_to_end(open_run(config, tmp_path / "run", resume=True)) == 0
    assert [row["step"] for row in repeatable_rows(tmp_path / "run")] == list(range(NUM_STEPS))


def test_a_finished_run_that_goes_on_is_judged_anew(
    tmp_path, small_config, open_run, repeatable_rows
):
    folder = tmp_path / "run"
    assert run_to_end(open_run(small_config(), folder)) == 0
    first = json.loads((folder / "summary.json").read_text())["evaluation"]
    longer = small_config({"learner": {"num_steps": 6}})
    run = open_run(longer, folder, resume=True)
    assert run_to_end(run) == 0
    assert len(repeatable_rows(folder)) == NUM_STEPS + 2
    assert run.state.evaluations["after"][0] == NUM_STEPS + 2
    second = json.loads((folder / "summary.json").read_text())["evaluation"]
    assert (second["initial"], second["before"]) == (first["initial"], first["before"])


def test_a_run_interrupted_before_its_first_checkpoint_begins_anew(
    tmp_path, small_config, open_run, repeatable_rows
):
    run = open_run(small_config(), tmp_path / "run")
    run.evaluate("initial")
    run.tracker.close()
    assert run_to_end(open_run(small_config(), tmp_path / "run", resume=True)) == 0
    assert len(repeatable_rows(tmp_path / "run")) == NUM_STEPS


def test_a_resumed_run_may_not_contradict_its_past(tmp_path, small_config, open_run):
    assert run_to_end(open_run(small_config(), tmp_path / "run")) == 0
    changed = small_config({"reward": {"illegal_penalty": 0.0}})
    with pytest.raises(ValueError, match=r"keeps reward\.illegal_penalty at 0\.5, got 0\.0"):
        open_run(changed, tmp_path / "run", resume=True)


def test_a_finished_run_resumes_to_the_same_result(tmp_path, small_config, open_run):
    config = small_config()
    assert run_to_end(open_run(config, tmp_path / "run")) == 0
    before = final_files(tmp_path / "run")
    assert run_to_end(open_run(config, tmp_path / "run", resume=True)) == 0
    model, _, state, evaluations, episodes = final_files(tmp_path / "run")
    assert_same(model, before[0])
    assert (state, evaluations, episodes) == before[2:]
