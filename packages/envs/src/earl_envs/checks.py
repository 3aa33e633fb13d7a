"""Checks of arguments that users pass: a wrong one is refused with its rule and value."""

import operator
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike


def whole_number(
    value: object, what: str, *, least: int | None = None, most: int | None = None
) -> int:
    """Return an integer, Python's or NumPy's, as Python's; a bool is none here.

    Raises:
        ValueError: If it is no integer, or not from `least` to `most`.
    """
    try:
        number = operator.index(cast("Any", value))
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise ValueError(f"{what} must be an integer, got {value!r}")
    if (least is not None and number < least) or (most is not None and number > most):
        rule = f"in {least}..{most}" if most is not None else f">= {least}"
        raise ValueError(f"{what} must be {rule}, got {number}")
    return number


def whole_numbers(values: object, what: str) -> list[int]:
    """Return the integers of a flat list or array.

    Raises:
        ValueError: If there is anything else in it, or it is not flat.
    """
    array = np.asarray(cast("ArrayLike", values))
    if array.ndim != 1:
        raise ValueError(f"expected a flat list of one {what} each, got shape {array.shape}")
    numbers = array.tolist()
    if array.dtype.kind not in "iu":
        for place, value in enumerate(numbers):
            if type(value) is not int:  # bool is an int too, but a mask is not a list of games
                raise ValueError(f"every {what} must be an integer, got {value!r} at place {place}")
    return numbers


def flag(value: object, what: str) -> bool:
    """Return True or False, which nothing else stands for.

    Raises:
        ValueError: If it is neither.
    """
    if type(value) not in {bool, np.bool_}:
        raise ValueError(f"{what} must be True or False, got {value!r}")
    return bool(value)
