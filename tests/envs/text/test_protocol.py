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
        ("[9] or [2", 8),
        ("[2] or 3]", 1),
        ("[2]\n\n[not", 1),
        ("<think>[3] wins</think>[2]", 1),
        ("[2]<think>[3]", 1),
        ("[3] it is</think>[2]", 1),
        ("<think>one</think>[3]<reasoning>two</reasoning>[2]", 1),
        ("thought [3] <answer>[2]</answer>", 1),
        ("<answer>2</answer> or rather [3]", 1),
        ("<action>I play [2].</action>", 1),
        (r"The answer is \boxed{2}.", 1),
        (r"<answer>3</answer> wait: \boxed{[2]}", 1),
        ("<answer>2</answer><answer>3", 1),
        ("été ✓ [2] \x00\x07", 1),
    ],
)
def test_legal_answer_is_the_move(reply, action):
    assert PROTOCOL.parse(reply, STATE) == _move(action)


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        ("", ParseFailure.UNPARSABLE),
        ("2", ParseFailure.UNPARSABLE),
        ("]2[", ParseFailure.UNPARSABLE),
        ("[2", ParseFailure.UNPARSABLE),
        ("[]", ParseFailure.UNPARSABLE),
        ("[0]", ParseFailure.UNPARSABLE),
        ("[10]", ParseFailure.UNPARSABLE),
        ("[2] [3.0]", ParseFailure.UNPARSABLE),
        ("[02]", ParseFailure.UNPARSABLE),
        ("[\N{FULLWIDTH DIGIT TWO}]", ParseFailure.UNPARSABLE),
        ("[2\x00]", ParseFailure.UNPARSABLE),
        ("[2, 3]", ParseFailure.UNPARSABLE),
        ("<think>[2]", ParseFailure.UNPARSABLE),
        ("<think>[2]</thinking>[2]", ParseFailure.UNPARSABLE),
        ("[2]</think>", ParseFailure.UNPARSABLE),
        ("[2]<think>[3]</think>[4]</think>", ParseFailure.UNPARSABLE),
        ("<answer>[2] or [3]</answer>", ParseFailure.UNPARSABLE),
        ("<answer>2 or 3</answer>", ParseFailure.UNPARSABLE),
        ("[2] <answer></answer>", ParseFailure.UNPARSABLE),
        ("<answer>[2]</action>", ParseFailure.UNPARSABLE),
        ("[2] <answer>[2]", ParseFailure.UNPARSABLE),
        (r"[2] \boxed{2", ParseFailure.UNPARSABLE),
        ("thought [2] <answer>[12]</answer>", ParseFailure.UNPARSABLE),
        ("thought [2] <answer>[5]</answer>", ParseFailure.ILLEGAL),
        ("<answer>5</answer> [2]", ParseFailure.ILLEGAL),
        (r"[2] \boxed{1}", ParseFailure.ILLEGAL),
        ("[1]", ParseFailure.ILLEGAL),
        ("[2] [5]", ParseFailure.ILLEGAL),
    ],
)
def test_anything_else_is_a_failure_and_never_another_move(reply, failure):
    parsed = PROTOCOL.parse(reply, STATE)
    assert (parsed.action, parsed.failure) == (None, failure)
    assert parsed.detail
    assert parsed.detail.isprintable()


@pytest.mark.parametrize("game_id", game_ids())
def test_every_legal_move_of_a_random_game_survives_the_round_trip(game_id):
    game, rng = make_game(game_id), np.random.default_rng(0)
    protocol, state = TextProtocol(game), game.initial(rng)
    for _ in range(15):
        if game.returns(state) is not None:
            break
        legal = game.legal(state)
        for action in rng.permutation(legal)[:5].tolist():
            reply = f"so: {protocol.format_move(state, action)}."
            assert protocol.parse(reply, state) == _move(action)
            assert protocol.parse(f"[no] <answer>{reply}</answer>", state) == _move(action)
        state = game.apply(state, int(rng.choice(legal)))


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_every_other_cell_is_illegal_and_no_other_number_is_a_move(seed):
    game, rng = PROTOCOL.game, np.random.default_rng(seed)
    state = game.initial(rng)
    while game.returns(state) is None:
        legal = game.legal(state)
        for number in range(-1, 12):
            parsed, on_board = PROTOCOL.parse(f"[{number}]", state), 1 <= number <= 9
            assert parsed.action == (number - 1 if number - 1 in legal else None)
            assert (parsed.failure is ParseFailure.ILLEGAL) == (
                on_board and number - 1 not in legal
            )
        state = game.apply(state, int(rng.choice(legal)))


@given(
    st.lists(
        st.sampled_from([
            *"[]12 \n\x00é{}",
            "<think>",
            "</think>",
            "<answer>",
            "</answer>",
            r"\boxed{",
        ])
    ).map("".join)
)
def test_any_text_gives_either_a_legal_move_or_a_failure(reply):
    parsed = PROTOCOL.parse(reply, STATE)
    assert (parsed.action is None) != (parsed.failure is None)
    assert parsed.action is None or parsed.action in PROTOCOL.game.legal(STATE)


def test_a_million_characters_are_parsed_at_once():
    reply = "no move here, [none] " * 50_000
    start_s = time.perf_counter()
    assert PROTOCOL.parse(reply, STATE).failure is ParseFailure.UNPARSABLE
    assert time.perf_counter() - start_s < 0.5  # milliseconds, with room for a busy machine


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
