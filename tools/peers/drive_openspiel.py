"""OpenSpiel: a loop over states, and its MCTS bot written in C++."""

import random
from collections.abc import Iterator
from typing import Any

import pyspiel
from driver import Run, Workload, drive

NUM_SIMULATIONS = 1000


def loop(name: str, batch: int, *, observe: bool) -> Run:
    """Play `batch` games a move each per call; the mask is the list of legal actions."""
    game: Any = pyspiel.load_game(name)
    states = [game.new_initial_state() for _ in range(batch)]
    draw = random.Random(0).random

    def run(num_calls: int) -> int:
        for _ in range(num_calls):
            for index, state in enumerate(states):
                legal = state.legal_actions()
                state.apply_action(legal[int(draw() * len(legal))])
                if state.is_terminal():
                    states[index] = state = game.new_initial_state()
                if observe:
                    state.observation_tensor()
        return num_calls * batch

    return run


def search() -> Run:
    """Search the empty board of Connect Four, with the settings of OpenSpiel's own example."""
    game: Any = pyspiel.load_game("connect_four")
    evaluator = pyspiel.RandomRolloutEvaluator(n_rollouts=1, seed=0)
    bot = pyspiel.MCTSBot(game, evaluator, 2.0, NUM_SIMULATIONS, 1000, True, 0, False)

    def run(num_calls: int) -> int:
        for _ in range(num_calls):
            bot.step(game.new_initial_state())
        return num_calls

    return run


def workloads(game: str, batch: int) -> Iterator[Workload]:
    """List what is measured."""
    for observe in (False, True):
        yield Workload(
            game=game,
            batch=batch,
            variant="state loop" + (" with observation" if observe else ""),
            observed=observe,
            make=lambda observe=observe: loop(game, batch, observe=observe),
        )
    if game == "connect_four" and batch == 1:
        yield Workload(
            game="connect_four_search",
            batch=1,
            variant=f"MCTS with {NUM_SIMULATIONS} simulations, empty board",
            observed=False,
            make=search,
        )


if __name__ == "__main__":
    drive("openspiel", "open-spiel", workloads)
