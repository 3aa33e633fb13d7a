"""Mastermind: marks with repeated colours, possible codes, scores."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from earl_envs.games.mastermind import Mastermind, feedback
from hypothesis import given
from hypothesis import strategies as st

GAME = Mastermind()
CODES = list(product(range(6), repeat=4))
codes = st.tuples(*[st.integers(0, 5)] * 4)


def number(word: str) -> int:
    return CODES.index(tuple("RGBYOP".index(colour) for colour in word))


@pytest.mark.parametrize(
    ("code", "guess", "marks"),
    [
        ("RGBY", "RGBY", "++++"),
        ("RGBY", "YBGR", "????"),
        ("RGBY", "OOPP", "----"),
        ("RGBY", "RRRR", "+---"),
        ("RRGB", "GRRP", "?+?-"),
        ("RGGB", "GOOG", "?--?"),
        ("RGBY", "GGOO", "-+--"),
        ("BOOR", "ORRO", "??-?"),
        ("RRRG", "GGRR", "?-+?"),
    ],
)
def test_a_peg_of_the_code_answers_one_peg_in_place_first_then_from_the_left(code, guess, marks):
    text = GAME.text((number(code), (number(guess),)), 0)
    assert text == f"{' '.join(guess)}: {' '.join(marks)}\nGuesses left: 5"


@given(codes, codes)
def test_marks_add_up_to_the_keys_of_the_board_game(code, guess):
    marks = Counter(feedback(code, guess))
    in_place = sum(a == b for a, b in zip(code, guess, strict=True))
    of_colour = sum((Counter(code) & Counter(guess)).values())
    assert marks[2] == in_place
    assert marks[1] == of_colour - in_place


def test_every_code_has_a_name_of_its_own_and_is_legal():
    state = GAME.initial(np.random.default_rng(0))
    assert GAME.legal(state) == list(range(1296))
    assert GAME.move_name(state, number("RGBY")) == "[R G B Y]"
    assert len({GAME.move_name(state, action) for action in GAME.legal(state)}) == 1296


def test_the_code_wins_and_the_last_wrong_guess_loses():
    code, wrong = number("RGBY"), number("RGBO")
    assert GAME.returns((code, (wrong, code))) == (1.0,)
    assert GAME.returns((code, (wrong,) * 5)) is None
    assert GAME.returns((code, (wrong,) * 6)) == (0.0,)
    assert GAME.returns((code, (*(wrong,) * 5, code))) == (1.0,)
    assert GAME.legal((code, (wrong,) * 6)) == []


def test_resampled_codes_are_all_that_give_the_same_marks():
    state = (number("RGBY"), (number("RRGG"),))
    rng = np.random.default_rng(0)
    expected = {
        number(word)
        for word in map("".join, product("RGBYOP", repeat=4))
        if GAME.text((number(word), state[1]), 0) == GAME.text(state, 0)
    }
    assert number("RGBY") in expected
    assert len(expected) > 5
    drawn = [GAME.resample(state, 0, rng) for _ in range(2_000)]
    assert {code for code, _ in drawn} == expected
    assert {guesses for _, guesses in drawn} == {state[1]}


def test_a_player_who_asks_only_possible_codes_finds_them_in_time():
    rng = np.random.default_rng(0)
    for _ in range(30):
        state = GAME.initial(rng)
        while GAME.returns(state) is None:
            state = GAME.apply(state, GAME.resample(state, 0, rng)[0])
        assert GAME.returns(state) == (1.0,)


def test_value_is_known_where_knuths_five_guesses_are_allowed():
    assert GAME.solved_value == Mastermind(num_guesses=5).solved_value == (1.0,)
    assert Mastermind(num_guesses=4).solved_value is None
    assert Mastermind(num_pegs=5, num_colours=6).solved_value is None


def test_planes_are_colours_then_marks_by_guess_and_peg():
    game = Mastermind(num_pegs=2, num_colours=3, num_guesses=2)
    code, guess = 1, 6  # R G and B R
    planes = game.planes((code, (guess,)), 0).tolist()
    assert planes[:3] == [[[0, 1], [0, 0]], [[0, 0], [0, 0]], [[1, 0], [0, 0]]]
    assert planes[3:] == [[[1, 0], [0, 0]], [[0, 1], [0, 0]], [[0, 0], [0, 0]]]
