"""Frozen Lake: ways across, edges, slips and scores."""

import numpy as np
import pytest
from earl_envs.games.frozen_lake import FrozenLake, Lake

FIRM = FrozenLake(size=3, slippery=False)
SLIPPERY = FrozenLake(size=3)
LEFT, DOWN, RIGHT, UP = range(4)


def lake(cell: int, *, num_moves: int = 0, chance: int = 0) -> Lake:
    return Lake(frozenset({2, 3}), cell, num_moves, chance)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_every_lake_has_a_way_across(size):
    game = FrozenLake(size=size, slippery=False)
    num_holes = 0
    for seed in range(50):
        start = game.initial(np.random.default_rng(seed))
        num_holes += len(start.holes)
        frontier, seen, scores = [start], {0}, set()
        while frontier:
            state = frontier.pop()
            scores.add(game.returns(state))
            near = [game.apply(state, action) for action in game.legal(state)]
            frontier += [n._replace(num_moves=0) for n in near if n.cell not in seen]
            seen |= {n.cell for n in near}
        assert (1.0,) in scores
    assert 0.05 < num_holes / (50 * size**2) < 0.2


def test_text_draws_the_lake():
    assert FIRM.text(lake(4), 0) == ". . O\nO P .\n. . G"
    assert FIRM.text(lake(8), 0) == ". . O\nO . .\n. . P"
    assert FIRM.text(lake(2), 0) == ". . P\nO . .\n. . G"


@pytest.mark.parametrize(
    ("cell", "reached"),
    [
        (4, [3, 7, 5, 1]),
        (0, [0, 3, 1, 0]),
        (5, [4, 8, 5, 2]),
        (6, [6, 6, 7, 3]),
    ],
)
def test_steps_go_where_they_say_and_stop_at_the_edge(cell, reached):
    assert [FIRM.apply(lake(cell), action).cell for action in range(4)] == reached
    names = [FIRM.move_name(lake(cell), action) for action in range(4)]
    assert names == ["[left]", "[down]", "[right]", "[up]"]


def test_goal_hole_and_move_limit_end_the_game():
    assert FIRM.returns(lake(8)) == (1.0,)
    assert FIRM.returns(lake(3)) == (0.0,)
    assert FIRM.returns(lake(4, num_moves=74)) is None
    assert FIRM.returns(lake(4, num_moves=75)) == (0.0,)
    assert FIRM.returns(lake(8, num_moves=75)) == (1.0,)
    assert FIRM.legal(lake(3)) == []


def test_a_slip_goes_to_either_side_as_often_as_straight_on():
    rng = np.random.default_rng(0)
    draws = [SLIPPERY.resample(lake(4), 0, rng) for _ in range(3_000)]
    reached = [SLIPPERY.apply(state, RIGHT).cell for state in draws]
    counts = {cell: reached.count(cell) for cell in (7, 5, 1)}
    assert sum(counts.values()) == 3_000
    assert min(counts.values()) > 900


def test_slips_of_one_game_are_as_even_and_depend_on_nothing_else():
    state, slips = lake(4, chance=5), []
    for _ in range(3_000):
        reached = SLIPPERY.apply(state, UP)
        assert reached == SLIPPERY.apply(state, UP)
        slips.append(reached.cell)
        state = reached._replace(cell=4, num_moves=0)
    pairs = [slips[i : i + 2].count(1) for i in range(0, 3_000, 2)]
    assert slips.count(3) > 900
    assert slips.count(5) > 900
    assert pairs.count(2) == pytest.approx(1_500 / 9, rel=0.25)


def test_firm_ice_keeps_nothing_to_redraw():
    assert FIRM.resample(lake(4), 0, np.random.default_rng(0)) == lake(4)
    assert "slippery" not in FIRM.rules()
    assert "slippery" in SLIPPERY.rules()


def test_planes_are_player_holes_and_goal():
    assert FIRM.planes(lake(4), 0).tolist() == [
        [[0, 0, 0], [0, 1, 0], [0, 0, 0]],
        [[0, 0, 1], [1, 0, 0], [0, 0, 0]],
        [[0, 0, 0], [0, 0, 0], [0, 0, 1]],
    ]
