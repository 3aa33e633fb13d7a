"""Reading replies: which tag counts, and what is never taken for a move."""

import time

import numpy as np
import pytest
from earl_envs import Game, ParsedReply, ParseFailure, TextProtocol, game_ids, make_game
from hypothesis import given, settings
from hypothesis import strategies as st

PROTOCOL = TextProtocol(make_game("earl/TicTacToe-v0"))
# X on cell 1, O on cell 5: both are illegal now.
STATE = (0b000_000_001, 0b000_010_000)


class Words(Game):
    """One move deep; its names are what the parser has to cope with."""

    num_seats, num_actions, max_moves = 1, 5, 1
    names = ("pass", " [ e2 e4 ] ", "twin", "twin")

    def initial(self, rng):
        return 0

    def seat(self, state):
        return 0

    def legal(self, state):
        return [0, 1, 2, 3]

    def apply(self, state, action):
        return 1

    def returns(self, state):
        return (0.0,) if state else None

    def text(self, state, seat):
        return ""

    def move_name(self, state, action):
        return self.names[action]


WORDS = TextProtocol(Words())


def _move(action: int) -> ParsedReply:
    return ParsedReply(action=action, failure=None, detail="")


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("[2]", 1),
        ("I take [ 2 ], thanks.", 1),
        ("[9] no, [2]", 1),
        ("[[2]]", 1),
        ("[2", None),
        ("[9] or [2", 8),
        ("[2] or 3]", 1),
        ("[2]\n\n[not", 1),
        ("<think>[3] wins</think>[2]", 1),
        ("[2]<think>[3]", 1),
        ("[2]<think>[3]</think>", 1),
        ("[3] it is</think>[2]", 1),
        ("<think>a<think>b</think>[3]</think>[2]", 1),
        ("<think>one</think>[3]<think>two</think>[2]", 1),
        ("thought [3] <answer>[2]</answer>", 1),
        ("été ✓ [2] \x00\x07", 1),
    ],
)
def test_last_complete_tag_outside_reasoning_is_the_move(reply, action):
    parsed = PROTOCOL.parse(reply, STATE)
    assert parsed.action == action
    assert (parsed.failure is None) == (action is not None)


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        ("", ParseFailure.UNPARSABLE),
        ("2", ParseFailure.UNPARSABLE),
        ("]2[", ParseFailure.UNPARSABLE),
        ("[]", ParseFailure.UNPARSABLE),
        ("[0]", ParseFailure.UNPARSABLE),
        ("[10]", ParseFailure.UNPARSABLE),
        ("[2] [3.0]", ParseFailure.UNPARSABLE),
        ("[02]", ParseFailure.UNPARSABLE),
        ("[\N{FULLWIDTH DIGIT TWO}]", ParseFailure.UNPARSABLE),
        ("[2, 3]", ParseFailure.UNPARSABLE),
        ("<think>[2]", ParseFailure.UNPARSABLE),
        ("[2]</think>", ParseFailure.UNPARSABLE),
        ("[2]<think>[3]</think>[4]</think>", ParseFailure.UNPARSABLE),
        ("thought [2] <answer>[5]</answer>", ParseFailure.ILLEGAL),
        ("[1]", ParseFailure.ILLEGAL),
        ("[2] [5]", ParseFailure.ILLEGAL),
    ],
)
def test_anything_else_is_a_failure_and_never_another_move(reply, failure):
    parsed = PROTOCOL.parse(reply, STATE)
    assert (parsed.action, parsed.failure) == (None, failure)
    assert parsed.detail


@pytest.mark.parametrize("game_id", game_ids())
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_every_legal_move_of_a_random_game_survives_the_round_trip(game_id, seed):
    game, rng = make_game(game_id), np.random.default_rng(seed)
    protocol, state = TextProtocol(game), game.initial(rng)
    while game.returns(state) is None:
        legal = game.legal(state)
        for action in range(game.num_actions):
            parsed = protocol.parse(f"so: {protocol.format_move(state, action)}.", state)
            assert parsed.action == (action if action in legal else None)
            assert (parsed.failure is ParseFailure.ILLEGAL) == (action not in legal)
        state = game.apply(state, int(rng.choice(legal)))


@given(st.text(st.sampled_from("[]12 <think></think>\n\x00é"), max_size=60))
def test_any_text_gives_either_a_legal_move_or_a_failure(reply):
    parsed = PROTOCOL.parse(reply, STATE)
    assert (parsed.action is None) != (parsed.failure is None)
    assert parsed.action is None or parsed.action in PROTOCOL.game.legal(STATE)


@pytest.mark.parametrize(
    "unit", ["[", "]", "[]", "<think>", "</think>", "<think></think>", "<", "[a"]
)
def test_a_million_characters_are_read_in_linear_time(unit):
    reply = unit * (1_000_000 // len(unit))
    start_s = time.perf_counter()
    assert PROTOCOL.parse(reply, STATE).failure is ParseFailure.UNPARSABLE
    # A quadratic reader needs minutes; the bound leaves room for a busy machine.
    assert time.perf_counter() - start_s < 2.0


def test_detail_stays_short_for_a_long_tag():
    assert len(PROTOCOL.parse(f"[{'x' * 10_000}]", STATE).detail) < 100


def test_names_are_compared_without_brackets_and_outer_blanks_but_with_case():
    assert WORDS.parse("[pass]", 0) == _move(0)
    assert WORDS.parse("[e2 e4]", 0) == _move(1)
    assert WORDS.parse("[Pass]", 0).failure is ParseFailure.UNPARSABLE
    assert WORDS.parse("[e2  e4]", 0).failure is ParseFailure.UNPARSABLE
    assert [WORDS.format_move(0, action) for action in (0, 1)] == ["[pass]", "[e2 e4]"]


def test_name_of_two_moves_is_unparsable():
    parsed = WORDS.parse("[twin]", 0)
    assert parsed.failure is ParseFailure.UNPARSABLE
    assert parsed.detail == "'[twin]' names 2 moves"


def test_game_that_cannot_name_illegal_actions_does_no_harm():
    # Words.move_name raises for action 4, which is never legal.
    assert WORDS.parse("[other]", 0).failure is ParseFailure.UNPARSABLE


def test_messages_are_the_rules_and_the_view_of_the_seat():
    assert PROTOCOL.system_message() == PROTOCOL.game.rules()
    assert PROTOCOL.turn_message(STATE, 0) == "X 2 3\n4 O 6\n7 8 9"
    assert PROTOCOL.turn_message(STATE, 1) == "O 2 3\n4 X 6\n7 8 9"


def test_failures_are_spelled_as_end_reasons():
    assert [str(failure) for failure in ParseFailure] == ["unparsable", "illegal_move"]
