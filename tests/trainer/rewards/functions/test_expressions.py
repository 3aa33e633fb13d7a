"""Expressions in many notations, by value."""

from fractions import Fraction

import pytest
from earl_trainer.rewards.functions.expressions import (
    UnreadableError,
    agree,
    evaluate,
    normalise,
)
from hypothesis import given
from hypothesis import strategies as st


def same(one, other):
    return agree(evaluate(normalise(one)), evaluate(normalise(other)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\frac{1}{2}", "0.5"),
        (r"\dfrac12", "1/2"),
        (r"\frac{\frac{1}{2}}{3}", "1/6"),
        (r"1\frac{1}{2}", "1.5"),
        ("1 1/2", "3/2"),
        ("1,234,567", "1234567"),
        ("12,345.5", "12345.5"),
        (r"\sqrt{8}", r"2\sqrt{2}"),
        (r"\sqrt[3]{27}", "3"),
        ("(x+1)^2", "x^2+2x+1"),
        ("x(x+1)", "x^{2} + x"),
        (r"2\pi", "6.283185307179586"),
        (r"90^\circ", "90"),
        (r"\left( x - y \right)", "-(y-x)"),
        (r"3 \cdot 4", "12"),
        ("\u22123", "-3"),
        ("x = 5", "5"),
    ],
)
def test_notations_of_one_value_agree(one, other):
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0.333", "1/3"),
        ("x", "y"),
        ("x^2", "x"),
        (r"\sqrt{x^2}", "x"),
        ("1,234", "1.234"),
        ("2", "3"),
    ],
)
def test_different_values_do_not(one, other):
    assert not same(one, other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no",
        "__import__('os').system('true')",
        "x.real",
        "1 if x else 2",
        "9^9^9^9",
        "1/0",
        "(" * 300,
        "[1 for _ in x]",
        "'a'",
        "True",
    ],
)
def test_what_is_no_arithmetic_is_not_evaluated(text):
    with pytest.raises(UnreadableError):
        evaluate(normalise(text))


@given(st.fractions(-1000, 1000, max_denominator=1000), st.integers(1, 50))
def test_a_fraction_may_be_extended(value, factor):
    top, bottom = value.numerator * factor, value.denominator * factor
    assert same(rf"\frac{{{top}}}{{{bottom}}}", f"{value.numerator}/{value.denominator}")
    other = value + Fraction(1, 997)
    assert not same(f"{top}/{bottom}", f"{other.numerator}/{other.denominator}")


@given(st.integers(0, 10**12))
def test_thousands_separators_mean_nothing(number):
    assert same(f"{number:,}", str(number))
