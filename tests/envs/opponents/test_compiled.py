"""What is left to kernels."""

from earl_envs import make_game
from earl_envs.games.connect_four import ConnectFour
from earl_envs.opponents.compiled import has_numba, is_usual_connect_four


def test_only_the_usual_connect_four_has_kernels():
    assert is_usual_connect_four(make_game("earl/ConnectFour-v0"))
    others = [{"rows": 7}, {"columns": 6}, {"connect": 5}]
    assert not any(is_usual_connect_four(ConnectFour(**params)) for params in others)
    assert not is_usual_connect_four(make_game("earl/TicTacToe-v0"))


def test_changed_rules_of_connect_four_have_none():
    class Changed(ConnectFour):
        pass

    assert not is_usual_connect_four(Changed())


def test_numba_is_there_where_tests_run():
    assert has_numba()
