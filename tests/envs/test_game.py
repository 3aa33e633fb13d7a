"""The contract as a user meets it."""

import pytest
from earl_envs import Game, GameBatch


def test_documented_game_plays_to_its_end(last_stone):
    batch = GameBatch(last_stone(), seeds=[0])
    for action in (2, 0, 2, 0, 2):
        assert not batch.done[0]
        batch.step([action])
    assert batch.returns.tolist() == [[1.0, -1.0]]
    assert batch.text(0, seat=1) == "0 stones"


def test_rules_are_optional(last_stone):
    class Untold(last_stone):
        rules = Game.rules

    assert Untold().rules() == ""


def test_missing_method_is_refused_when_the_game_is_made(last_stone):
    class NoText(last_stone):
        text = Game.text

    with pytest.raises(TypeError, match="text"):
        NoText()
