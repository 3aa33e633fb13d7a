"""Sokoban: pushes, scores, and levels that a search can solve."""

from collections import deque

import numpy as np
import pytest
from earl_envs.games.sokoban import Level, Sokoban

GAME = Sokoban(size=4, num_boxes=2)
WIDTH = 6
LEFT, DOWN, RIGHT, UP = range(4)


def drawn(text: str) -> Level:
    """Read a level of four rows."""
    cells: dict[str, set[int]] = {mark: set() for mark in "#-.$*@+"}
    for row, line in enumerate(text.splitlines()):
        for column, mark in enumerate(line.split()):
            cells[mark].add((row + 1) * WIDTH + column + 1)
    inside = set.union(*cells.values())
    (player,) = cells["@"] | cells["+"]
    return Level(
        walls=frozenset(range(WIDTH**2)) - inside | cells["#"],
        goals=frozenset(cells["."] | cells["*"] | cells["+"]),
        boxes=frozenset(cells["$"] | cells["*"]),
        player=player,
        num_moves=0,
    )


def solution_length(game: Sokoban, start: Level) -> int | None:
    frontier, seen = deque([start]), {(start.player, start.boxes)}
    while frontier:
        state = frontier.popleft()
        if state.boxes == state.goals:
            return state.num_moves
        for action in game.legal(state):
            reached = game.apply(state, action)
            key = (reached.player, reached.boxes)
            if key not in seen:
                seen.add(key)
                frontier.append(reached)
    return None


@pytest.mark.parametrize(
    ("size", "num_boxes", "seeds"), [(6, 2, range(20)), (4, 1, range(50)), (5, 2, range(10))]
)
def test_every_level_can_be_solved_within_the_move_limit(size, num_boxes, seeds):
    game = Sokoban(size=size, num_boxes=num_boxes)
    lengths = []
    for seed in seeds:
        start = game.initial(np.random.default_rng(seed))
        assert len(start.boxes) == len(start.goals) == num_boxes
        assert not start.boxes & start.goals
        lengths.append(solution_length(game, start))
    assert None not in lengths
    assert max(lengths) <= game.max_moves // 2


MARKED = "+ - - -\n- $ * -\n- # - .\n- - - -"


def test_text_shows_every_mark():
    assert GAME.text(drawn(MARKED), 0) == MARKED
    assert GAME.text(drawn(MARKED.replace("+ -", ". @")), 0) == MARKED.replace("+ -", ". @")


@pytest.mark.parametrize(
    ("before", "way", "after"),
    [
        ("- @ $ -\n- - - .\n- - $ .\n- - - -", RIGHT, "- - @ $\n- - - .\n- - $ .\n- - - -"),
        ("- - - -\n- - @ .\n- - $ .\n- $ - -", DOWN, "- - - -\n- - - .\n- - @ .\n- $ $ -"),
        ("- - - -\n. * @ -\n- - $ -\n- - - -", LEFT, "- - - -\n* + - -\n- - $ -\n- - - -"),
        ("- - - -\n. - $ -\n. - $ -\n- - @ -", UP, None),
        ("- - - -\n. - $ @\n. - # -\n- $ - -", RIGHT, None),
        ("- - - -\n. # $ @\n. - - -\n- $ - -", LEFT, None),
        ("- - - -\n. - - -\n. - - @\n- $ - $", DOWN, None),
        ("- - - -\n. - - #\n. - - @\n- $ $ -", UP, None),
    ],
)
def test_pushes_move_one_box_onto_free_floor_and_nothing_else(before, way, after):
    reached = GAME.apply(drawn(before), way)
    assert GAME.text(reached, 0) == (before if after is None else after)
    assert reached.num_moves == 1


def test_all_boxes_on_goals_score_one_and_the_limit_their_share():
    done = drawn("- - - -\n- * * @\n- - - -\n- - - -")
    half = drawn("- - - -\n- * . @\n- $ - -\n- - - -")
    none = drawn("- - - -\n- . . @\n$ $ - -\n- - - -")
    assert GAME.returns(done) == (1.0,)
    assert GAME.returns(half) is None
    assert GAME.returns(half._replace(num_moves=GAME.max_moves - 1)) is None
    assert GAME.returns(half._replace(num_moves=GAME.max_moves)) == (0.5,)
    assert GAME.returns(none._replace(num_moves=GAME.max_moves)) == (0.0,)
    assert GAME.legal(half._replace(num_moves=GAME.max_moves)) == []


def test_planes_are_player_boxes_goals_and_walls():
    assert GAME.planes(drawn(MARKED), 0).tolist() == [
        [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
        [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]],
        [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]],
    ]
