"""PettingZoo: the loop over agents of the unwrapped environments, which is its fastest."""

import random
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from driver import Run, Workload, drive

MODULES = {
    "tic_tac_toe": "pettingzoo.classic.tictactoe_v3",
    "connect_four": "pettingzoo.classic.connect_four_v3",
}
# A loop in Python is no faster for more environments.
MAX_BATCH = 64


def loop(module: str, batch: int) -> Run:
    """Play `batch` games a move each per call."""
    envs: list[Any] = [import_module(module).raw_env() for _ in range(batch)]
    for env in envs:
        env.reset(seed=0)
    draw = random.Random(0).random

    def run(num_calls: int) -> int:
        for _ in range(num_calls):
            for env in envs:
                observation, _, terminated, truncated, _ = env.last()
                if terminated or truncated:
                    env.reset()
                    observation, _, _, _, _ = env.last()
                legal = observation["action_mask"].nonzero()[0]
                env.step(legal[int(draw() * len(legal))])
        return num_calls * batch

    return run


def workloads(game: str, batch: int) -> Iterator[Workload]:
    """List what is measured."""
    if game in MODULES and batch <= MAX_BATCH:
        yield Workload(
            game=game,
            batch=batch,
            variant="raw_env, loop over agents",
            observed=True,
            make=lambda: loop(MODULES[game], batch),
        )


if __name__ == "__main__":
    drive("pettingzoo", "pettingzoo", workloads)
