"""EnvPool: its ports of the board games, stepped together by one thread."""

from collections.abc import Iterator
from typing import Any

import envpool  # pyright: ignore[reportMissingImports]  # lives in the environment of this driver
import numpy as np
from driver import Run, Workload, drive

TASKS = {"tic_tac_toe": "TicTacToe-v1", "connect_four": "ConnectFour-v1", "othello": "Othello-v1"}


def loop(task: str, batch: int) -> Run:
    """Play `batch` games a move each per call.

    A call that only restarts a finished game is no move.
    """
    env: Any = envpool.make(task, env_type="gymnasium", num_envs=batch, num_threads=1, seed=0)
    rng = np.random.default_rng(0)
    _, info = env.reset()
    mask = info["legal_action_mask"]
    restarting = np.zeros(batch, np.bool_)

    def run(num_calls: int) -> int:
        nonlocal mask, restarting
        num_moves = 0
        for _ in range(num_calls):
            scores = rng.random(mask.shape, np.float32)
            actions = np.argmax(scores * mask, axis=1).astype(np.int32)
            _, _, terminated, truncated, info = env.step(actions)
            num_moves += batch - int(np.count_nonzero(restarting))
            restarting = terminated | truncated
            mask = info["legal_action_mask"]
        return num_moves

    return run


def workloads(game: str, batch: int) -> Iterator[Workload]:
    """List what is measured."""
    yield Workload(
        game=game,
        batch=batch,
        variant="step, one thread",
        observed=True,
        make=lambda: loop(TASKS[game], batch),
    )


if __name__ == "__main__":
    drive("envpool", "envpool", workloads)
