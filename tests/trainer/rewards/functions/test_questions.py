"""Replies and what they are compared with."""

import pytest
from earl_trainer.rewards.functions.questions import answers


def test_every_game_gives_its_last_reply_and_its_solution(told):
    assert list(answers(told("test/Sum-v0", "1/4", "3/4"))) == [
        ("1/4", r"\frac{3}{4}"),
        ("3/4", r"\frac{3}{4}"),
    ]


def test_a_game_without_a_reply_has_an_empty_answer(told):
    (answer,) = answers(told("test/Sum-v0", moves=[()]))
    assert answer[0] == ""


def test_a_game_without_solutions_is_refused(told):
    with pytest.raises(ValueError, match="TicTacToe-v0 has no solution"):
        list(answers(told("earl/TicTacToe-v0", "[5]")))
