"""Several workers are stopped, sent back and examined together."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EARL = Path(sys.executable).parent / "earl"
OPTIONS = {
    "selector.num-devices": 1,
    "selector.tp-degrees": 1,
    "rollout.games-per-episode": 1,
    "rollout.games-ramp-steps": 0,
    "rollout.num-episodes": 16,
    "rollout.group-size": 8,
    "model.hidden-size": 32,
    "model.num-layers": 1,
    "model.num-heads": 2,
    "warmup.num-steps": 6,
    "warmup.num-episodes": 16,
    "warmup.lr": 0.01,
    "learner.num-steps": 6,
    "evaluation.num-games": 4,
    "evaluation.every-steps": 5,
    "evaluation.checkup-games": 8,
    "evaluation.past-selves": 1,
    "evaluation.optimum": "true",
    "guards.loss-spike": "roll-back",
    "guards.loss-spike-steps": 2,
    # So little that some step or other is a spike.
    "guards.loss-spike-deviations": 0.001,
    "guards.max-rollbacks": 1,
    "guards.normalise-rewards": "centre",
    "tracking.wandb": "disabled",
    "tracking.checkpoint-every-steps": 1,
    "dispatch.timeout-s": 120,
}


def train(folder, **workers):
    options = OPTIONS | {name.replace("_", "-"): number for name, number in workers.items()}
    flags = [f"--{name}={value}" for name, value in options.items()]
    command = [EARL, "train", "--run-dir", folder, *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "summary.json").read_text())


@pytest.mark.slow
def test_all_workers_hear_of_what_the_first_ones_guards_find(tmp_path):
    alone = train(tmp_path / "alone")
    together = train(tmp_path / "together", rollout_workers=2, learner_workers=2)

    (rollback,) = together["guards"]["rollbacks"]
    assert rollback["guard"] == "loss_spike"
    assert rollback["to_step"] < rollback["from_step"]
    for found, expected in zip(
        together["guards"]["rollbacks"], alone["guards"]["rollbacks"], strict=True
    ):
        assert found | {"reason": ""} == expected | {"reason": ""}
    assert together["steps"] == alone["steps"]
    latest, other = together["checkups"]["latest"], alone["checkups"]["latest"]
    assert latest == pytest.approx(other, abs=1e-6)
