"""Games that the tests of the faces play, under ids that begin with `faces/`."""

import numpy as np
import pytest
from earl_envs.faces.registration import register_with_frameworks
from earl_envs.game import Game
from earl_envs.registry import register_game


class Climb(Game):
    """One player climbs from a height that chance chose; the step up is scored, waiting is not."""

    num_seats, num_actions, max_moves = 1, 2, 8
    min_return = 0.0

    def initial(self, rng):
        return (int(rng.integers(4)), 0)

    def seat(self, state):
        return 0

    def legal(self, state):
        return [0, 1] if state[0] < 6 else [0]

    def apply(self, state, action):
        return (state[0] + action, state[1] + 1)

    def returns(self, state):
        return (state[0] / 12,) if state[1] == self.max_moves else None

    def text(self, state, seat):
        return f"height {state[0]} after {state[1]} moves"

    def move_name(self, state, action):
        return ("[wait]", "[up]")[action]

    def planes(self, state, seat):
        planes = np.zeros((2, 4, 4), np.uint8)
        planes[(0, *divmod(state[0], 4))] = 1
        planes[1, 0, state[1] % 4] = 1
        return planes


def faulty(last_stone):
    class Faulty(last_stone):
        """Raises once fewer than `below` stones are left, in the named method."""

        def __init__(self, *, method: str, below: int = 8):
            super().__init__()
            self._method, self._below = method, below

        def _check(self, method, state):
            if method == self._method and state[0] < self._below:
                raise RuntimeError(f"{method} broke")

        def apply(self, state, action):
            self._check("apply", state)
            return super().apply(state, action)

        def text(self, state, seat):
            self._check("text", state)
            return super().text(state, seat)

        def planes(self, state, seat):
            self._check("planes", state)
            return np.full((1, 1, 4), state[0], np.uint8)

    return Faulty


@pytest.fixture(scope="session", autouse=True)
def registered_games(last_stone):
    games = {
        "faces/LastStone-v0": last_stone,
        "faces/Climb-v0": Climb,
        "faces/Faulty-v0": faulty(last_stone),
    }
    for game_id, game_class in games.items():
        register_game(game_id, game_class)
    for game_id in (*games, "earl/TicTacToe-v0", "earl/ConnectFour-v0"):
        register_with_frameworks(game_id)
