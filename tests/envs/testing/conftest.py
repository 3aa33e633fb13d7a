"""An honest game to make liars of, and the one way to ask a check about them."""

import gymnasium
import numpy as np
import pytest
from earl_envs import Game, registry
from earl_envs.testing import CHECKS
from earl_envs.testing.check import find
from earl_envs.testing.context import make_context


class Sealed(Game):
    """Rock, paper, scissors; seat 1 chooses without seeing what seat 0 did. State: the choices."""

    num_seats, num_actions, max_moves = 2, 3, 2

    def initial(self, rng):
        return ()

    def seat(self, state):
        return len(state)

    def legal(self, state):
        return [0, 1, 2] if len(state) < 2 else []

    def apply(self, state, action):
        return (*state, action)

    def returns(self, state):
        if len(state) < 2:
            return None
        return [(0.0, 0.0), (1.0, -1.0), (-1.0, 1.0)][(state[0] - state[1]) % 3]

    def text(self, state, seat):
        shown = state if len(state) == 2 else state[seat : seat + 1]
        return f"Choices you know: {list(shown)}"

    def move_name(self, state, action):
        return f"[{'RPS'[action]}]"

    def planes(self, state, seat):
        known = np.zeros((1, 2, 3), np.uint8)
        for place, choice in enumerate(state):
            known[0, place, choice] = len(state) == 2 or place == seat
        return known

    def resample(self, state, seat, rng):
        return (int(rng.integers(3)),) if len(state) == 1 and seat == 1 else state


@pytest.fixture
def stones(last_stone):
    class Stones(last_stone):
        """Take one or two of five to eight stones."""

        num_seats, num_actions, max_moves = 2, 2, 8

        def __init__(self):
            """Keep the numbers of the class, which liars change."""

        def initial(self, rng):
            return int(rng.integers(5, 9)), 0

        def legal(self, state):
            return [action for action in range(2) if action < state[0]]

        def rules(self):
            return "Take 1 or 2 stones."

    return Stones


@pytest.fixture
def sealed():
    return Sealed


@pytest.fixture
def register(monkeypatch):
    """Register a class for this test only, itself or by name, and return its id."""
    monkeypatch.setenv(registry.REGISTERED_VARIABLE, "")
    monkeypatch.setattr(registry, "_REGISTRY", registry.GameRegistry())
    kept = dict(gymnasium.registry)

    def register(game_class, entry=None):
        game_id = f"liar/{game_class.__name__}-v0"
        if game_id not in registry.game_ids():
            registry.register_game(game_id, entry or game_class)
        return game_id

    yield register
    for game_id in set(gymnasium.registry) - set(kept):
        del gymnasium.registry[game_id]


@pytest.fixture
def context_of(register):
    def make(game_class, num_games=20, entry=None, **params):
        return make_context(register(game_class, entry), params, num_games=num_games, seed=0)

    return make


@pytest.fixture
def findings_of(context_of):
    """Ask one check about a class and return what it finds, as text."""

    def ask(check, game_class, num_games=20, entry=None):
        context = context_of(game_class, num_games, entry=entry)
        return [str(finding) for finding in find(context, CHECKS[check])]

    return ask
