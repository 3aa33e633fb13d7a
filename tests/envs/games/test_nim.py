"""Nim against brute force."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from earl_envs.games.nim import Heaps, Nim


def test_solved_value_is_what_brute_force_finds_for_all_small_heaps():
    for heaps in product(range(1, 5), range(1, 4), range(1, 4)):
        game = Nim(heaps=heaps)

        @cache
        def value(state: Heaps, game: Nim = game) -> float:
            returns = game.returns(state)
            if returns is not None:
                return returns[0]
            best = max if game.seat(state) == 0 else min
            return best(value(game.apply(state, action)) for action in game.legal(state))

        assert value(game.initial(np.random.default_rng(0))) == game.solved_value[0]


def test_default_heaps_are_lost_for_the_first_player():
    assert Nim().solved_value == (-1.0, 1.0)


def test_moves_take_stones_from_one_heap():
    game = Nim(heaps=(2, 1, 3))
    state = ((2, 1, 3), 0)
    reached = {game.move_name(state, a): game.apply(state, a)[0] for a in game.legal(state)}
    assert reached == {
        "[a1]": (1, 1, 3),
        "[a2]": (0, 1, 3),
        "[b1]": (2, 0, 3),
        "[c1]": (2, 1, 2),
        "[c2]": (2, 1, 1),
        "[c3]": (2, 1, 0),
    }


@pytest.mark.parametrize(("seat", "returns"), [(0, (-1.0, 1.0)), (1, (1.0, -1.0))])
def test_whoever_took_the_last_stone_wins(seat, returns):
    assert Nim(heaps=(1, 1)).returns(((0, 0), seat)) == returns
    assert Nim(heaps=(1, 1)).returns(((0, 1), seat)) is None


def test_text_and_planes_show_what_is_left():
    game = Nim(heaps=(2, 3))
    assert game.text(((1, 3), 1), 0) == "a:1 b:3"
    assert game.planes(((1, 3), 1), 0).tolist() == [[[1, 0, 0], [1, 1, 1]]]
