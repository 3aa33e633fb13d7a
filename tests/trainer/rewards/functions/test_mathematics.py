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
        # Fractions and separators.
        (r"\frac12", "1/2"),
        ("0.5", r"\frac{1}{2}"),
        (r"1{,}000", "1000"),
        (r"1,\!234,\!567", "1,234,567"),
        ("(100,200)", "(100, 200)"),
        # Sets and intervals.
        (r"\{2,1\}", r"\{1,2\}"),
        (r"\{0.5, 1\}", r"\left\{\frac12, 1\right\}"),
        (r"\{(2,3),(0,1)\}", r"\{(0,1),(2,3)\}"),
        (r"\{100,300,200\}", "{100, 200, 300}"),
        ("(0, 0.5]", r"\left(0,\tfrac12\right]"),
        (r"(-\infty, 3)", r"(-\infty,3)"),
        # Units.
        (r"12\text{ cm}", "12"),
        ("12", r"12\,\mathrm{cm}^2"),
        ("12 cm", r"12\text{ cm}"),
        ("12 cm^2", r"12\text{ cm}^2"),
        ("0.5 dollars", r"\frac{1}{2}\text{ dollars}"),
        (r"\$5", "5"),
        ("90 degrees", r"90^\circ"),
        # Longer than what is read by value.
        ("1+" * 300 + "1", "1 + " * 300 + "1"),
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
        ("0.33", r"\frac13"),
        ("1,000", "1"),
        ("(1,234)", "1234"),
        (r"\{1,3\}", r"\{1,2\}"),
        (r"\{1,2\}", r"\{1,2,3\}"),
        (r"\{1,2,3\}", r"\{1,2\}"),
        (r"\{1,2\}", "(1,2)"),
        ("1, 2", "(1, 2)"),
        ("(0,1]", "(0,1)"),
        ("[0,1)", "(0,1)"),
        ("[0,1]", "(0,1)"),
        (r"(0,1)\cup(2,3)", "(0,1)"),
        (r"12\text{ cm}", r"12\text{ m}"),
        ("12 cm", "12 cm^2"),
        ("5xy", "5"),
        ("3m", "3"),
        ("1" * 400 + "2", "1" * 400 + "3"),
    ],
)
def test_unequal_answers(given, truth):
    assert not is_equal(given, truth)


def test_the_share_of_right_games_is_the_reward(told):
    replies = r"It is \boxed{0.75}", "the answer is 6/8", "0.7", ""
    assert mathematics(told("test/Sum-v0", *replies)) == 0.5
    with pytest.raises(ValueError, match="solution must be a string"):
        mathematics(told("test/Doubling-v0", "1"))
