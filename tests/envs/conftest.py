"""The small game that many tests play."""

import pytest
from earl_envs.game import Game


class LastStone(Game):
    """Whoever takes the last stone wins. State: (stones, seat to move). No planes."""

    num_actions = 3

    def __init__(self, *, stones: int = 11, seats: int = 2):
        self.num_seats, self.max_moves, self._stones = seats, stones, stones

    def initial(self, rng):
        return (self._stones, 0)

    def seat(self, state):
        return state[1]

    def legal(self, state):
        return [action for action in range(3) if action + 1 <= state[0]]

    def apply(self, state, action):
        return (state[0] - action - 1, (state[1] + 1) % self.num_seats)

    def returns(self, state):
        if state[0]:
            return None
        winner = (state[1] - 1) % self.num_seats
        return tuple(1.0 if seat == winner else -1.0 for seat in range(self.num_seats))

    def text(self, state, seat):
        return f"{state[0]} stones"

    def move_name(self, state, action):
        return f"[{action + 1}]"

    def rules(self):
        return "Take 1 to 3 stones, such as [2]. Whoever takes the last one wins."


@pytest.fixture(scope="session")
def last_stone() -> type[Game]:
    return LastStone
