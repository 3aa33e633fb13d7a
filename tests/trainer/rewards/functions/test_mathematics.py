"""Answers found and compared."""

import pytest
from earl_trainer.rewards.functions.mathematics import final_answer, is_equal, mathematics


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (r"\boxed{1} or rather \boxed{\frac{3}{4}}, so 7.", r"\frac{3}{4}"),
        ("It is <answer>0.75</answer>, 3 of 4.", "0.75"),
        ("So the answer is 3/4.", "3/4"),
        ("So the answer is 0.75. Good.", "0.75"),
        ("First 1, then 1,234", "1,234"),
        ("Sales rose by 50%", "50%"),
        ("I do not know", None),
        (r"\boxed{12", "12"),
    ],
)
def test_the_answer_is_found(reply, answer):
    assert final_answer(reply) == answer


@pytest.mark.parametrize(
    ("given", "truth"),
    [
        ("0.75", r"\frac{3}{4}"),
        ("50%", "1/2"),
        (r"50\%", "0.5"),
        ("50", r"50\%"),
        ("0.5", "50%"),
        ("(1, 2/4)", r"\left(1, \frac{1}{2}\right)"),
        ("1,000", "1000"),
        (r"\text{Monday}", "monday"),
        ("x=3", "3"),
    ],
)
def test_equal_answers(given, truth):
    assert is_equal(given, truth)


@pytest.mark.parametrize(
    ("given", "truth"),
    [
        ("50%", "50"),
        ("0.7", "3/4"),
        ("(2, 1)", "(1, 2)"),
        ("1", "(1, 2)"),
        ("", ""),
        ("Monday", "3"),
    ],
)
def test_unequal_answers(given, truth):
    assert not is_equal(given, truth)


def test_the_share_of_right_games_is_the_reward(told):
    replies = r"It is \boxed{0.75}", "the answer is 6/8", "0.7", ""
    assert mathematics(told("test/Sum-v0", *replies)) == 0.5
    with pytest.raises(ValueError, match="solution must be a string"):
        mathematics(told("test/Doubling-v0", "1"))
