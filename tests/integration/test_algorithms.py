"""Every algorithm takes the same loop from episodes to new weights."""

import copy
import math

import pytest
import torch
from earl_trainer.algorithms.table import ALGORITHMS
from earl_trainer.loop import train_step
from earl_trainer.phases import RL
from earl_trainer.staging import enter

pytestmark = pytest.mark.slow

NAMES = [name for name, algorithm in ALGORITHMS.items() if algorithm.reinforces]
TINY = {
    "model": {"hidden_size": 32, "num_layers": 1, "num_heads": 2},
    "warmup": {"num_steps": 40, "num_episodes": 32, "lr": 5e-3},
    "rollout": {"num_episodes": 16, "group_size": 4},
    "selector": {"profile": "none"},
}


@pytest.fixture(scope="module")
def shared():
    """What is made once for all: weights that know the rules well enough for rewards to differ."""
    return {}


@pytest.fixture
def warm_weights(shared, small_config, open_run, tmp_path):
    if not shared:
        run = open_run(small_config(TINY), tmp_path / "warm")
        warmup = run.phases[0]
        run.begin()
        stages = enter(run, warmup)
        for _ in range(warmup.num_steps):
            train_step(run, warmup, stages)
        run.tracker.close()
        shared.update(copy.deepcopy(run.model.state_dict()))
    return shared


@pytest.fixture
def display(silent_display):
    """Remembers the records of steps."""
    shown = silent_display()
    shown.records = []
    shown.log_step = shown.records.append
    return shown


def make_two_steps(run, weights):
    """Make the first two steps of the second phase."""
    run.model.load_state_dict(weights)
    phase = run.phases[1]
    assert phase.name == RL
    run.state.step = phase.first_step
    run.begin()
    stages = enter(run, phase)
    for _ in range(2):
        train_step(run, phase, stages)
    run.tracker.close()


@pytest.mark.parametrize("name", NAMES)
def test_two_steps_of_every_algorithm_change_the_weights_and_leave_them_finite(
    name, warm_weights, small_config, open_run, display, tmp_path
):
    config = small_config(TINY, {"algorithm": {"name": name}})
    run = open_run(config, tmp_path / "run", display=display)
    make_two_steps(run, warm_weights)
    metrics = display.records[-1].metrics
    moved = [
        (value - warm_weights[key]).abs().max().item()
        for key, value in run.model.state_dict().items()
    ]
    assert 0.0 < max(moved) < 0.1
    assert all(torch.isfinite(value).all() for value in run.model.state_dict().values())
    assert metrics["policy/skipped_updates"] == 0.0
    if ALGORITHMS[name].needs_critic:
        assert metrics["policy/value_grad_norm"] > 0.0
    if run.phases[1].needs_old_logprobs:
        # Engine and learner compute alike here, and nothing is stale.
        assert metrics["mismatch/effective_share"] == pytest.approx(1.0, abs=1e-4)
        assert abs(metrics["mismatch/kl"]) < 1e-6


OPTIONS = [
    {"algorithm": {"kl_coefficient": 0.1, "kl_in": "reward", "kl_target": 0.01}},
    {"algorithm": {"kl_coefficient": 0.1, "kl_estimator": "k2", "entropy_coefficient": 0.01}},
    {
        "algorithm": {
            "correction": "decoupled",
            "weight_level": "geometric",
            "on_larger_weight": "mask",
            "min_weight": 0.5,
            "aggregation": "prompt-mean",
        }
    },
    {
        "algorithm": {"name": "ppo"},
        "advantage": {"step": "turn", "trace_decay": 0.9},
        "reward": {"truncation": "bootstrap"},
        "rollout": {"max_context_tokens": 60},
        "opponent": "self",
    },
    {"algorithm": {"name": "remax"}, "opponent": "self"},
]


@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_options_that_go_together_change_the_weights(
    number, warm_weights, small_config, open_run, display, tmp_path
):
    run = open_run(small_config(TINY, OPTIONS[number]), tmp_path / "run", display=display)
    make_two_steps(run, warm_weights)
    assert not all(torch.equal(v, warm_weights[k]) for k, v in run.model.state_dict().items())
    assert math.isfinite(display.records[-1].metrics["policy/loss"])
