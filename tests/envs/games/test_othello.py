"""Othello on drawn positions, against a plain board of lists and against OpenSpiel."""

import numpy as np
import pyspiel
import pytest
from earl_envs.games.othello import PASS, Discs, Othello
from hypothesis import given, settings
from hypothesis import strategies as st

GAME = Othello()
START = GAME.initial(np.random.default_rng(0))
NEIGHBOURS = [(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if r or c]


def _state(drawing: str, seat: int) -> Discs:
    marks = [mark for line in drawing.strip().splitlines()[1:] for mark in line.split()[1:]]
    first, second = (
        sum(1 << place for place, mark in enumerate(marks) if mark == kind) for kind in "XO"
    )
    return (first, second, seat)


def _action(name: str) -> int:
    return 8 * (int(name[1]) - 1) + "abcdefgh".index(name[0])


def _play(*names: str) -> Discs:
    state = START
    for name in names:
        assert _action(name) in GAME.legal(state)
        state = GAME.apply(state, _action(name))
    return state


def test_start_and_first_moves_are_those_of_the_rule_book():
    assert GAME.text(START, 0).splitlines()[4:6] == ["4 . . . O X . . .", "5 . . . X O . . ."]
    assert [GAME.move_name(START, a) for a in GAME.legal(START)] == ["[d3]", "[c4]", "[f5]", "[e6]"]


def test_disc_turns_over_what_it_encloses_in_every_direction():
    state = _state(
        """
  a b c d e f g h
1 X . . X . . X .
2 . O . O . O . .
3 . . O O O . . .
4 X O O . O O O X
5 . . O O O . . .
6 . O . O . O . .
7 X . . O . . O .
8 . . . X . . . X
        """,
        0,
    )
    assert GAME.text(GAME.apply(state, _action("d4")), 0).splitlines() == [
        "  a b c d e f g h",
        "1 X . . X . . X .",
        "2 . X . X . X . .",
        "3 . . X X X . . .",
        "4 X X X X X X X X",
        "5 . . X X X . . .",
        "6 . X . X . X . .",
        "7 X . . X . . X .",
        "8 . . . X . . . X",
    ]


def test_disc_next_to_the_edge_encloses_nothing_around_it():
    state = _state(
        """
  a b c d e f g h
1 . . . . . . . .
2 . . . . . . . .
3 . . . . . . X O
4 . O X . . . . .
5 . . . . . . . .
6 . . . . . . . .
7 . . . . . . . .
8 . . . . . . . .
        """,
        0,
    )
    assert [GAME.move_name(state, action) for action in GAME.legal(state)] == ["[a4]"]


def test_seat_without_a_move_passes():
    state = _state(
        """
  a b c d e f g h
1 X O . . . . . .
2 . . . . . . . .
3 . . . . . . . .
4 . . . . . . . .
5 . . . . . . . .
6 . . . . . . . .
7 . . . . . . . .
8 . . . . . . . .
        """,
        1,
    )
    assert GAME.returns(state) is None
    assert GAME.legal(state) == [PASS]
    assert GAME.move_name(state, PASS) == "[pass]"
    after = GAME.apply(state, PASS)
    assert after == (state[0], state[1], 0)
    assert GAME.legal(after) == [_action("c1")]
    over = GAME.apply(after, _action("c1"))
    assert GAME.legal(over) == []
    assert GAME.returns(over) == (1.0, -1.0)


def test_shortest_game_ends_after_nine_moves():
    # Known as the shortest wipe-out; https://www.chessprogramming.org/Othello.
    state = _play("e6", "f4", "e3", "f6", "g5", "d6", "e7", "f5", "c5")
    assert GAME.returns(state) == (1.0, -1.0)
    assert state[1] == 0


@pytest.mark.parametrize(
    ("first", "second", "returns"),
    [
        (2**33 - 1, 2**64 - 2**33, (1.0, -1.0)),
        (2**32 - 1, 2**64 - 2**32, (0.0, 0.0)),
        (2**31 - 1, 2**64 - 2**31, (-1.0, 1.0)),
    ],
)
def test_full_board_goes_to_the_more_discs(first, second, returns):
    assert GAME.returns((first, second, 0)) == returns
    assert GAME.legal((first, second, 0)) == []


def _plain_flips(cells: dict[tuple[int, int], int], seat: int, row: int, column: int) -> list:
    flipped = []
    for down, right in NEIGHBOURS:
        run, place = [], (row + down, column + right)
        while cells.get(place) == 1 - seat:
            run.append(place)
            place = (place[0] + down, place[1] + right)
        if cells.get(place) == seat:
            flipped += run
    return flipped


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32))
def test_play_agrees_with_a_plain_board(seed):
    rng, state = np.random.default_rng(seed), START
    cells = {(3, 3): 1, (4, 4): 1, (3, 4): 0, (4, 3): 0}
    for _ in range(30):
        seat = GAME.seat(state)
        empty = [(r, c) for r in range(8) for c in range(8) if (r, c) not in cells]
        open_cells = [8 * r + c for r, c in empty if _plain_flips(cells, seat, r, c)]
        if GAME.returns(state) is not None:
            assert not open_cells
            return
        assert GAME.legal(state) == (open_cells or [PASS])
        action = int(rng.choice(GAME.legal(state)))
        if action != PASS:
            place = divmod(action, 8)
            for turned in [place, *_plain_flips(cells, seat, *place)]:
                cells[turned] = seat
        state = GAME.apply(state, action)
        planes = GAME.planes(state, 1)
        assert {place for place, owner in cells.items() if owner == 1} == set(
            map(tuple, np.argwhere(planes[0]).tolist())
        )
        assert planes[1].sum() == sum(owner == 0 for owner in cells.values())


@pytest.mark.parametrize("seed", range(10))
def test_whole_games_agree_with_openspiel(seed):
    rng, state = np.random.default_rng(seed), START
    theirs = pyspiel.load_game("othello").new_initial_state()
    num_moves = 0
    while GAME.returns(state) is None:
        assert theirs.current_player() == GAME.seat(state)
        assert theirs.legal_actions() == GAME.legal(state)
        action = int(rng.choice(GAME.legal(state)))
        state = GAME.apply(state, action)
        theirs.apply_action(action)
        num_moves += 1
    assert theirs.is_terminal()
    assert tuple(theirs.returns()) == GAME.returns(state)
    assert num_moves <= GAME.max_moves


def test_rules_name_moves_as_moves_are_written():
    assert GAME.move_name(START, _action("d3")) in GAME.rules()
    assert GAME.move_name(START, PASS) in GAME.rules()


def test_both_seats_see_the_same_board_with_marks_swapped():
    state = _play("d3", "c3", "c4")
    swapped = GAME.text(state, 0).translate(str.maketrans("XO", "OX"))
    assert GAME.text(state, 1) == swapped
    np.testing.assert_array_equal(GAME.planes(state, 0), GAME.planes(state, 1)[::-1])
