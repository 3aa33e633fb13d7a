"""Positions and games that several opponents are tried on."""

from collections.abc import Callable

import numpy as np
import pytest
from earl_envs import Game, make_game

TTT, C4 = "earl/TicTacToe-v0", "earl/ConnectFour-v0"
GAMES = {game_id: make_game(game_id) for game_id in (TTT, C4)}


class HiddenCoin(Game):
    """Guess a hidden coin for +1 or -9, or take a safe 0.1."""

    num_seats, num_actions, max_moves = 2, 3, 1

    def initial(self, rng):
        return (int(rng.integers(2)), -1)

    def seat(self, state):
        return 0

    def legal(self, state):
        return [0, 1, 2] if state[1] < 0 else []

    def apply(self, state, action):
        return (state[0], action)

    def returns(self, state):
        coin, action = state
        if action < 0:
            return None
        score = 0.1 if action == 2 else 1.0 if action == coin else -9.0
        return (score, -score)

    def text(self, state, seat):
        return "?"

    def move_name(self, state, action):
        return f"[{action}]"

    def resample(self, state, seat, rng):
        return (int(rng.integers(2)), state[1])


class Ladder(Game):
    """Three seats in turn pick 0 or 1; whoever moved second gets most if all picked 1."""

    num_seats, num_actions, max_moves = 3, 2, 3

    def initial(self, rng):
        return ()

    def seat(self, state):
        return len(state)

    def legal(self, state):
        return [0, 1] if len(state) < 3 else []

    def apply(self, state, action):
        return (*state, action)

    def returns(self, state):
        if len(state) < 3:
            return None
        # The last seat prefers the path 0, 1 to anything else, the middle seat knows it.
        table = {(0, 1, 1): (0.0, 5.0, 9.0), (1, 0, 0): (6.0, 4.0, 1.0), (1, 1, 1): (7.0, 1.0, 2.0)}
        return table.get(state, (0.0, 0.0, 0.0))

    def text(self, state, seat):
        return str(state)

    def move_name(self, state, action):
        return f"[{action}]"


class Together(Ladder):
    """Two seats that share every score."""

    num_seats, max_moves = 2, 2

    def legal(self, state):
        return [0, 1] if len(state) < 2 else []

    def returns(self, state):
        return None if len(state) < 2 else (float(state[0] == state[1]),) * 2


@pytest.fixture
def hidden_coin() -> Game:
    return HiddenCoin()


@pytest.fixture
def ladder() -> Game:
    return Ladder()


@pytest.fixture
def together() -> Game:
    return Together()


@pytest.fixture
def random_stones() -> Callable[[int, int], tuple[int, int]]:
    """Give the state of a running Connect Four game of so many random moves."""

    def draw(num_stones: int, seed: int) -> tuple[int, int]:
        game, rng = GAMES[C4], np.random.default_rng((num_stones, seed))
        while True:
            state = game.initial(rng)
            for _ in range(num_stones):
                if game.returns(state) is not None:
                    break
                legal = game.legal(state)
                state = game.apply(state, legal[rng.integers(len(legal))])
            if game.returns(state) is None and (state[0] | state[1]).bit_count() == num_stones:
                return state

    return draw


@pytest.fixture
def play_games() -> Callable[..., list[float]]:
    """Play a player in one seat against another and return its scores, one per game."""

    def play(game_id, player, other, *, seat, num_games) -> list[float]:
        game, scores = GAMES[game_id], []
        for episode in range(num_games):
            rng = np.random.default_rng((seat, episode))
            state = game.initial(rng)
            while game.returns(state) is None:
                mover = game.seat(state)
                action = (player if mover == seat else other).move(game, state, mover, rng)
                state = game.apply(state, action)
            scores.append(game.returns(state)[seat])
        return scores

    return play
