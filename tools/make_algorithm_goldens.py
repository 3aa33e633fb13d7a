"""Write what other libraries compute, for the tests of algorithms to compare with.

`uv run --no-project --with torch --with rlax --with torchrl python tools/make_algorithm_goldens.py`
writes tests/trainer/algorithms/golden/*.json. The libraries are needed for that alone.
"""

import json
import random
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parents[1] / "tests" / "trainer" / "algorithms" / "golden"
NUM_STEPS = 12
GAMMA, TRACE_DECAY, MAX_TRACE, CLIP = 0.93, 0.85, 1.7, 0.2


def make_inputs(rng: random.Random) -> dict[str, list[float]]:
    """Draw a trajectory: a value more than steps, as it was cut."""

    def draw(count: int) -> list[float]:
        return [round(rng.gauss(0.0, 1.0), 4) for _ in range(count)]

    return {
        "rewards": draw(NUM_STEPS),
        "values": draw(NUM_STEPS + 1),
        "log_ratios": [value / 2 for value in draw(NUM_STEPS)],
        "advantages": draw(NUM_STEPS),
    }


def by_rlax(inputs: dict[str, list[float]]) -> dict[str, list[float] | float]:
    """Return what rlax makes of a trajectory."""
    jnp, rlax = _load("jax.numpy"), _load("rlax")
    rewards, values, log_ratios, advantages = (jnp.array(each) for each in inputs.values())
    discounts = jnp.full((NUM_STEPS,), GAMMA)
    trace = rlax.vtrace_td_error_and_advantage(
        values[:-1],
        values[1:],
        rewards,
        discounts,
        jnp.exp(log_ratios),
        TRACE_DECAY,
        MAX_TRACE,
        MAX_TRACE,
    )
    return {
        "gae": rlax.truncated_generalized_advantage_estimation(
            rewards, discounts, TRACE_DECAY, values
        ).tolist(),
        "vtrace_targets": (trace.errors + values[:-1]).tolist(),
        "vtrace_advantages": trace.pg_advantage.tolist(),
        "clipped_loss": rlax.clipped_surrogate_pg_loss(
            jnp.exp(log_ratios), advantages, CLIP
        ).item(),
    }


def by_torchrl(inputs: dict[str, list[float]]) -> dict[str, list[float]]:
    """Return what torchrl makes of a trajectory."""
    functional = _load("torchrl.objectives.value.functional")

    def column(name: str) -> torch.Tensor:
        return torch.tensor(inputs[name])[:, None]

    values, rewards = column("values"), column("rewards")
    done = torch.zeros(NUM_STEPS, 1, dtype=torch.bool)
    done[-1] = True
    terminated = torch.zeros_like(done)
    advantages, returns = functional.generalized_advantage_estimate(
        GAMMA, TRACE_DECAY, values[:-1], values[1:], rewards, done=done, terminated=terminated
    )
    trace, targets = functional.vtrace_advantage_estimate(
        GAMMA,
        column("log_ratios"),
        torch.zeros(NUM_STEPS, 1),
        values[:-1],
        values[1:],
        rewards,
        done,
        terminated,
        rho_thresh=1.0,
        c_thresh=1.0,
    )
    # Of a critic that has moved by the log-ratios and should have said the rewards.
    old_values = values[:-1]
    new_values = old_values + column("log_ratios")
    objectives = _load("torchrl.objectives.utils")
    value_loss, _ = objectives._clip_value_loss(
        old_values,
        new_values,
        torch.tensor(CLIP),
        rewards,
        objectives.distance_loss(new_values, rewards, "l2"),
        "l2",
    )
    return {
        "value_loss": value_loss[:, 0].tolist(),
        "gae": advantages[:, 0].tolist(),
        "gae_returns": returns[:, 0].tolist(),
        "vtrace_advantages": trace[:, 0].tolist(),
        "vtrace_targets": targets[:, 0].tolist(),
    }


def _load(name: str) -> Any:  # noqa: ANN401 - a module that nothing else has
    return import_module(name)


def main() -> None:
    """Draw inputs, ask every library, write its answers."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, library in (("rlax", by_rlax), ("torchrl", by_torchrl)):
        inputs = make_inputs(random.Random(7))
        golden = {
            "library": f"{name} {version(name)}",
            "constants": {
                "gamma": GAMMA,
                "trace_decay": TRACE_DECAY,
                "max_trace": MAX_TRACE,
                "clip": CLIP,
            },
            "inputs": inputs,
            "outputs": library(inputs),
        }
        (FOLDER / f"{name}.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
