"""Breakthrough on drawn boards and against OpenSpiel."""

import numpy as np
import pytest
from earl_envs.games.breakthrough import Board, Breakthrough

pyspiel = pytest.importorskip("pyspiel")

GAME = Breakthrough(rows=5, columns=3)


def drawn(board: str, seat: int) -> Board:
    """Read a board of five rows, X for seat 0."""
    rows = [line.split() for line in reversed(board.strip().splitlines())]
    marks = [mark for row in rows for mark in row]
    first, second = (sum(1 << i for i, m in enumerate(marks) if m == who) for who in "XO")
    return (first, second, seat)


def names(state: Board) -> set[str]:
    return {GAME.move_name(state, action) for action in GAME.legal(state)}


def test_start_is_drawn_with_labels_for_the_seat_that_looks():
    state = GAME.initial(np.random.default_rng(0))
    assert GAME.text(state, 0) == (
        "5 O O O\n4 O O O\n3 . . .\n2 X X X\n1 X X X\n  a b c\nX moves up."
    )
    assert GAME.text(state, 1) == (
        "5 X X X\n4 X X X\n3 . . .\n2 O O O\n1 O O O\n  a b c\nX moves down."
    )


def test_straight_moves_need_an_empty_cell_and_diagonal_ones_no_own_stone():
    state = drawn(". . .\n. O O\n. X X\n. . X\n. . .", seat=0)
    assert names(state) == {"[b3a4]", "[b3c4]", "[c3b4]"}
    state = drawn(". . .\n. O O\n. X .\n. . X\n. . .", seat=1)
    assert names(state) == {"[b4a3]", "[b4c3]", "[c4b3]", "[c4c3]"}


def test_a_stone_takes_what_it_lands_on():
    state = drawn(". . .\n. . O\n. X .\n. . .\nX . .", seat=0)
    taken = next(a for a in GAME.legal(state) if GAME.move_name(state, a) == "[b3c4]")
    reached = GAME.apply(state, taken)
    assert reached == drawn(". . .\n. . X\n. . .\n. . .\nX . .", seat=1)
    assert GAME.returns(reached) == (1.0, -1.0)  # it was the last one
    assert GAME.legal(reached) == []


@pytest.mark.parametrize(
    ("board", "returns"),
    [
        ("X . .\n. . .\n. . .\n. . O\n. . .", (1.0, -1.0)),
        (". . .\n. . X\n. . .\n. . .\nO . .", (-1.0, 1.0)),
        (". . .\n. . .\n. . O\n. . .\n. . .", (-1.0, 1.0)),
        ("O . .\n. . .\n. . .\n. . .\n. . X", None),
    ],
)
def test_far_row_and_last_stone_decide(board, returns):
    assert GAME.returns(drawn(board, seat=0)) == returns


@pytest.mark.parametrize(("rows", "columns"), [(6, 6), (8, 8), (7, 4)])
def test_openspiel_plays_the_same_games_from_the_other_side(rows, columns):
    game = Breakthrough(rows=rows, columns=columns)
    peer_game = pyspiel.load_game("breakthrough", {"rows": rows, "columns": columns})
    rng = np.random.default_rng(0)

    def mirrored(name: str) -> str:
        name = name.rstrip("*")  # a capture
        return f"[{name[0]}{rows + 1 - int(name[1])}{name[2]}{rows + 1 - int(name[3])}]"

    for _ in range(5):
        state, peer = game.initial(rng), peer_game.new_initial_state()
        while not peer.is_terminal():
            ours = {game.move_name(state, action): action for action in game.legal(state)}
            theirs = {mirrored(peer.action_to_string(a)): a for a in peer.legal_actions()}
            assert ours.keys() == theirs.keys()
            name = str(rng.choice(sorted(ours)))
            state = game.apply(state, ours[name])
            peer.apply_action(theirs[name])
        assert list(game.returns(state)) == peer.returns()


def test_move_limit_is_what_all_stones_may_walk():
    # Each of the four stones of a side walks from rows 1 and 2 to row 4 of 5; then one reaches 5.
    assert Breakthrough(rows=5, columns=2).max_moves == 2 * (2 * 3 + 2 * 2) + 1


def test_planes_show_own_stones_first_and_who_moves_up():
    state = drawn(". . O\n. . .\n. . .\n. . .\nX . .", seat=0)
    for seat, corner in ((0, (0, 0)), (1, (4, 2))):
        own, other, up = GAME.planes(state, seat)
        assert np.argwhere(own).tolist() == [list(corner)]
        assert other.sum() == 1
        assert own[corner] > other[corner]
        assert (up == 1 - seat).all()
