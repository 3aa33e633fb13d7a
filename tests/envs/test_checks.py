"""What passes for a number or a flag, and what is said of the rest."""

import numpy as np
import pytest
from earl_envs.checks import flag, whole_number, whole_numbers


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.array(3)])
def test_integers_of_every_kind_become_ints(value):
    number = whole_number(value, "size", least=3, most=3)
    assert number == 3
    assert type(number) is int


@pytest.mark.parametrize("value", [1.0, np.float64(1), "1", None, True, np.bool_(True), [1]])
def test_what_is_no_integer_is_refused(value):
    with pytest.raises(ValueError, match=r"^size must be an integer, got "):
        whole_number(value, "size")


@pytest.mark.parametrize(
    ("value", "bounds", "message"),
    [
        (0, {"least": 1}, "size must be >= 1, got 0"),
        (5, {"least": 1, "most": 4}, r"size must be in 1\.\.4, got 5"),
        (0, {"least": 1, "most": 4}, r"size must be in 1\.\.4, got 0"),
    ],
)
def test_integers_out_of_range_are_refused(value, bounds, message):
    with pytest.raises(ValueError, match=message):
        whole_number(value, "size", **bounds)


def test_lists_of_integers_may_be_arrays_tuples_or_empty():
    for values in ([4, 0], (4, 0), np.array([4, 0], np.uint8), [np.int64(4), 0]):
        assert whole_numbers(values, "move") == [4, 0]
    assert whole_numbers([], "move") == []
    assert whole_numbers([2**70], "move") == [2**70]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, None], "every move must be an integer, got None at place 1"),
        ([True], "every move must be an integer, got True at place 0"),
        ([0.5], r"every move must be an integer, got 0\.5 at place 0"),
        ("12", r"expected a flat list of one move each, got shape \(\)"),
        ([[1]], r"expected a flat list of one move each, got shape \(1, 1\)"),
    ],
)
def test_lists_of_anything_else_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        whole_numbers(values, "move")


def test_flags_are_true_or_false_only():
    assert flag(np.bool_(True), "autoreset") is True
    assert flag(False, "autoreset") is False
    for value in ("yes", 1, None):
        with pytest.raises(ValueError, match=f"autoreset must be True or False, got {value!r}"):
            flag(value, "autoreset")
