"""The shipped opening book: complete, legal, and right where it can be checked quickly."""

import numpy as np
import pytest
from earl_envs import make_game
from earl_envs.opponents.connect_four_book import (
    BookEntry,
    book_column,
    canonical_key,
    mirrored,
    read_book,
    save_book,
    shipped_book,
)
from hypothesis import given
from hypothesis import strategies as st

GAME = make_game("earl/ConnectFour-v0")


def sides(state):
    seat = GAME.seat(state)
    return state[seat], state[0] | state[1]


@given(st.lists(st.integers(0, 6), max_size=12))
def test_a_position_and_its_image_have_one_key(columns):
    state, turned = (0, 0), (0, 0)
    for column in columns:
        if column in GAME.legal(state):
            state, turned = GAME.apply(state, column), GAME.apply(turned, 6 - column)
    key, is_mirrored = canonical_key(*sides(state))
    image_key, image_is_mirrored = canonical_key(*sides(turned))
    assert key == image_key
    if state != turned:
        assert is_mirrored != image_is_mirrored
    assert tuple(map(mirrored, state)) == turned


def test_entries_survive_the_file(tmp_path):
    entries = [
        BookEntry(key=2**48 + 5, value=-1, column=6),
        BookEntry(key=0, value=1, column=3),
        BookEntry(key=7, value=0, column=0),
    ]
    save_book(entries, tmp_path / "book.npy")
    assert read_book(tmp_path / "book.npy") == {entry.key: entry for entry in entries}
    assert np.load(tmp_path / "book.npy").nbytes == 24


def test_no_answer_where_the_book_has_none():
    # A board full of the other side's stones.
    assert book_column(0, sum(0b111111 << 7 * column for column in range(7))) is None


def test_an_image_is_answered_with_the_image_of_the_move():
    answers = [book_column(0, 1 << 7 * column) for column in range(7)]
    assert None not in answers
    assert answers[4:] == [6 - column for column in reversed(answers[:3])]


def test_the_book_is_every_position_that_its_own_play_can_reach():
    met = positions_met(0) | positions_met(1)
    assert met == set(shipped_book())
    assert len(met) == 3_144


def positions_met(seat):
    """Keys of the positions of up to nine stones in which the book moves for this seat."""
    frontier, met = {(0, 0)}, set()
    for _ in range(10):
        following = set()
        for state in frontier:
            legal = GAME.legal(state)
            if GAME.seat(state) == seat:
                key = canonical_key(*sides(state))[0]
                column = book_column(*sides(state))
                assert column in legal, state
                met.add(key)
                legal = [column]
            reached = [GAME.apply(state, column) for column in legal]
            following |= {state for state in reached if GAME.returns(state) is None}
        frontier = following
    return met


def test_values_of_first_moves_are_those_known():
    book = shipped_book()
    assert book[0].value == 1
    assert book[0].column == 3
    # Allis (1988): the outer two first moves lose, the next draws, the centre wins.
    values = [book[canonical_key(0, 1 << 7 * column)[0]].value for column in range(4)]
    assert values == [1, 1, 0, -1]


@pytest.mark.slow
def test_a_sample_of_the_book_is_proven_again():
    from earl_envs.opponents.connect_four_solver import ConnectFourSolver

    solver = ConnectFourSolver(shallow_bits=18, deep_bits=24)
    late = sorted(key for key in shipped_book() if num_stones(key) >= 8)
    for key in np.random.default_rng(0).choice(late, size=12, replace=False).tolist():
        entry, (own, taken) = shipped_book()[key], unpacked(key)
        value = int(solver.is_above(own, taken, score=0))
        value -= int(not value and not solver.is_above(own, taken, score=-1))
        assert entry.value == value
        move = taken + (1 << 7 * entry.column) & 127 << 7 * entry.column
        if not value or not has_four(own | move):
            assert not solver.is_above(own ^ taken, taken | move, score=-value)


def unpacked(key):
    """Own stones and all stones: each column of a key is its stones plus the own ones of them."""
    own = taken = 0
    for column in range(7):
        bits = key >> 7 * column & 127
        height = (bits + 1).bit_length() - 1
        taken |= (1 << height) - 1 << 7 * column
        own |= bits - (1 << height) + 1 << 7 * column
    return own, taken


def num_stones(key):
    return unpacked(key)[1].bit_count()


def has_four(stones):
    return any(GAME.returns((stones, 0)) or ())
