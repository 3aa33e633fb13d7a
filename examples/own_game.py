"""A game of your own, from its rules to a model that plays it.

Two players take one to three stones in turn; whoever takes the last one wins. Run it with

    uv run python examples/own_game.py [--run-dir DIR] [--field value ...]
"""

import sys
import time
from pathlib import Path

import earl_envs
import numpy as np
from earl_trainer.assemble import assemble_run
from earl_trainer.launch import run_to_end
from earl_trainer.overrides import parse_flags, resolve
from earl_trainer.recipes import find_recipe
from earl_trainer.run import Run

State = tuple[int, int]  # stones left, seat to move


class LastStone(earl_envs.Game[State]):
    """The rules, and nothing else."""

    num_seats, num_actions, max_moves = 2, 3, 11

    def initial(self, rng: np.random.Generator) -> State:
        """Start with 7 to 11 stones."""
        return int(rng.integers(7, 12)), 0

    def seat(self, state: State) -> int:
        """Return whose turn it is."""
        return state[1]

    def legal(self, state: State) -> list[int]:
        """Return the actions; action a takes a + 1 stones."""
        return [action for action in range(3) if action < state[0]]

    def apply(self, state: State, action: int) -> State:
        """Take the stones and pass the turn."""
        return state[0] - action - 1, 1 - state[1]

    def returns(self, state: State) -> tuple[float, float] | None:
        """Score the game once no stone is left: the seat that moved last has won."""
        if state[0] > 0:
            return None
        return (-1.0, 1.0) if state[1] == 0 else (1.0, -1.0)

    def text(self, state: State, seat: int) -> str:
        """Show the stones."""
        return f"{'o ' * state[0]}({state[0]} left)"

    def move_name(self, state: State, action: int) -> str:
        """Name the move by how many stones it takes."""
        return f"[{action + 1}]"


# Not inside a function: rollout workers are processes of their own, which import this file anew.
earl_envs.register_game("me/LastStone-v0", LastStone)


def make_run() -> Run:
    """Put together a run on the game, as on a built-in one."""
    recipe = {"env": "me/LastStone-v0", "warmup": {"num_steps": 60}, "learner": {"num_steps": 30}}
    flags = parse_flags(sys.argv[1:])
    folder = Path(flags.pop("run_dir", time.strftime("runs/last-stone-%Y%m%d-%H%M%S")))
    config = resolve(find_recipe("tictactoe-tiny"), recipe, flags)
    return assemble_run(config, folder, resume=False)


def main() -> None:
    """Train; what the flags ask for wrongly is one line and exit status 2."""
    try:
        run = make_run()
    except ValueError as error:
        sys.stderr.write(f"own_game: {error}\n")
        sys.exit(2)
    sys.exit(run_to_end(run))


if __name__ == "__main__":
    main()
