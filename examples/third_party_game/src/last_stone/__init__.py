"""Take one to three stones in turn; whoever takes the last one wins."""
# ruff: noqa: D102 - `Game` says what the methods mean

import numpy as np
from earl_envs import Game

State = tuple[int, int]  # stones left, seat to move


class LastStone(Game[State]):
    """The rules, and nothing else."""

    num_seats, num_actions, max_moves = 2, 3, 11

    def initial(self, rng: np.random.Generator) -> State:
        return int(rng.integers(7, 12)), 0

    def seat(self, state: State) -> int:
        return state[1]

    def legal(self, state: State) -> list[int]:
        return [action for action in range(3) if action < state[0]]

    def apply(self, state: State, action: int) -> State:
        return state[0] - action - 1, 1 - state[1]

    def returns(self, state: State) -> tuple[float, float] | None:
        if state[0] > 0:
            return None
        return (-1.0, 1.0) if state[1] == 0 else (1.0, -1.0)

    def text(self, state: State, seat: int) -> str:
        return f"{state[0]} stones left"

    def move_name(self, state: State, action: int) -> str:
        return f"[{action + 1}]"

    def rules(self) -> str:
        return "Take 1 to 3 stones; whoever takes the last one wins. Reply such as [2]."
