"""Findings point at the user's own lines."""

import inspect

import pytest
from earl_envs import position
from earl_envs.boundary import attempt
from earl_envs.position import examine
from earl_envs.testing import GameCheckError, check_game
from earl_envs.testing.citation import cite_rules


def test_a_place_in_this_package_becomes_the_method_that_answered(stones):
    class Beyond(stones):
        def seat(self, state):
            return 7

    game = Beyond()
    line = inspect.getsourcelines(Beyond.seat)[1]
    here = f"ValueError: seat() must be in 0..1, got 7 ({position.__file__}:9 in examine)"
    cited = cite_rules(game, here)
    assert cited == f"ValueError: seat() must be in 0..1, got 7 ({__file__}:{line} in seat)"
    assert cite_rules(game, attempt(examine, game, (5, 0)).error) == cited


def test_places_of_the_game_and_of_other_libraries_stay(stones):
    class Own(stones):
        def legal(self, state):
            raise KeyError("mine")

    for file in (__file__, "/usr/lib/numpy/core.py"):
        wrong = f"legal() raises KeyError: 'mine' ({file}:3 in legal)"
        assert cite_rules(Own(), wrong) == wrong


def test_a_place_in_this_package_goes_where_no_method_is_named(stones):
    wrong = f"after action 3: it failed ({position.__file__}:9 in examine)"
    assert cite_rules(stones(), wrong) == "after action 3: it failed"


def test_reports_cite_the_users_file(register, stones):
    class Beyond(stones):
        def legal(self, state):
            return [0, 2]

    with pytest.raises(GameCheckError) as caught:
        check_game(register(Beyond), num_games=3)
    assert f"({__file__}:" in str(caught.value)
    assert "position.py" not in str(caught.value)
