"""This package: one public call a step, which chooses, moves, restarts and observes."""

from collections.abc import Iterator

from driver import Run, Workload, drive
from earl_envs.batch import make_batch

GAME_IDS = {
    "tic_tac_toe": "earl/TicTacToe-v0",
    "connect_four": "earl/ConnectFour-v0",
    "othello": "earl/Othello-v0",
}


def loop(game: str, batch_size: int) -> Run:
    """Make a random move in each of `batch_size` games per call."""
    batch = make_batch(
        GAME_IDS[game], batch_size=batch_size, seed=0, autoreset=True, backend="numba"
    )

    def run(num_calls: int) -> int:
        step, choose = batch.step, batch.random_actions
        for _ in range(num_calls):
            step(choose())
        return num_calls * batch_size

    return run


def workloads(game: str, batch: int) -> Iterator[Workload]:
    """List what is measured."""
    yield Workload(
        game=game,
        batch=batch,
        variant="step(random_actions())",
        observed=True,
        make=lambda: loop(game, batch),
    )


if __name__ == "__main__":
    drive("earl", "earl-envs", workloads)
