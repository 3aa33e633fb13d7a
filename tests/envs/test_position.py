"""Checks of what a game's rules answer."""

import numpy as np
import pytest
from earl_envs import Game
from earl_envs.position import Position, examine


class Scripted(Game):
    """Answers whatever it was made with."""

    num_seats, num_actions, max_moves = 2, 3, 1

    def __init__(self, *, seat=0, legal=(0,), returns=None):
        self._seat, self._legal, self._returns = seat, legal, returns

    def initial(self, rng):
        return "start"

    def seat(self, state):
        return self._seat

    def legal(self, state):
        return None if self._legal is None else list(self._legal)

    def apply(self, state, action):
        return state

    def returns(self, state):
        return self._returns

    def text(self, state, seat):
        return state

    def move_name(self, state, action):
        return str(action)


def test_running_position_holds_the_answers_of_the_rules():
    game = Scripted(seat=1, legal=np.array([2, 0]))
    expected = Position(state="start", seat=1, legal=(2, 0), returns=None)
    assert examine(game, "start") == expected
    assert all(type(action) is int for action in examine(game, "start").legal)


def test_finished_position_has_no_seat_and_no_moves():
    game = Scripted(legal=(0, 1), returns=(1, -1))
    assert examine(game, "end") == Position(state="end", seat=-1, legal=(), returns=(1.0, -1.0))


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"seat": 2}, r"seat\(\) must be in 0..1, got 2"),
        ({"seat": -1}, r"seat\(\) must be in 0..1, got -1"),
        ({"legal": ()}, r"legal\(\) must not be empty"),
        ({"legal": (0, 3)}, r"legal\(\) must be in 0..2, got \(0, 3\)"),
        ({"legal": (-1,)}, r"legal\(\) must be in 0..2, got \(-1,\)"),
        ({"returns": (1.0,)}, r"returns\(\) must be 2 finite scores"),
        ({"returns": (float("nan"), 0.0)}, r"returns\(\) must be 2 finite scores"),
        ({"returns": 1.0}, r"returns\(\) must be 2 finite scores, got 1\.0"),
        ({"returns": ("a", 0.0)}, r"returns\(\) must be 2 finite scores, got \('a', 0\.0\)"),
        ({"seat": "0"}, r"seat\(\) must be in 0\.\.1, got '0'"),
        ({"seat": None}, r"seat\(\) must be in 0\.\.1, got None"),
        ({"legal": (1.0,)}, r"legal\(\) must be a list of integers in 0..2, got \[1\.0\]"),
        ({"legal": None}, r"legal\(\) must be a list of integers in 0..2, got None"),
    ],
)
def test_answers_against_the_contract_are_refused(answers, message):
    with pytest.raises(ValueError, match=message):
        examine(Scripted(**answers), "start")
