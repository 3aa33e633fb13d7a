"""The contract as a user meets it."""

import pytest
from earl_envs import Game, GameBatch


class LastStone(Game):
    """The game of the documentation: take one to three stones, the last one wins."""

    num_seats, num_actions, max_moves = 2, 3, 11

    def initial(self, rng):
        return (11, 0)

    def seat(self, state):
        return state[1]

    def legal(self, state):
        return [a for a in range(3) if a + 1 <= state[0]]

    def apply(self, state, action):
        return (state[0] - action - 1, 1 - state[1])

    def returns(self, state):
        if state[0]:
            return None
        return (-1.0, 1.0) if state[1] == 0 else (1.0, -1.0)

    def text(self, state, seat):
        return f"{state[0]} stones"

    def move_name(self, state, action):
        return f"[{action + 1}]"


def test_documented_game_plays_to_its_end():
    batch = GameBatch(LastStone(), seeds=[0])
    for action in (2, 0, 2, 0, 2):
        assert not batch.done[0]
        batch.step([action])
    assert batch.returns.tolist() == [[1.0, -1.0]]
    assert batch.text(0, seat=1) == "0 stones"


def test_rules_are_optional():
    assert LastStone().rules() == ""


def test_missing_method_is_refused_when_the_game_is_made():
    class NoText(LastStone):
        text = Game.text

    with pytest.raises(TypeError, match="text"):
        NoText()
