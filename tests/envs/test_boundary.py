"""Exceptions of user code as data."""

import pytest
from earl_envs.boundary import Failure, attempt


def _divide(a: int, b: int) -> float:
    return a / b


def _complain() -> None:
    raise ValueError("two\nlines")


def test_result_passes_through():
    assert attempt(_divide, 6, b=3) == 2.0


def test_failure_tells_type_message_and_place():
    failure = attempt(_divide, 1, 0)
    assert isinstance(failure, Failure)
    assert failure.error.startswith("ZeroDivisionError: division by zero (")
    assert failure.error.endswith("in _divide)")
    assert "test_boundary.py:" in failure.error


def test_failure_is_one_line():
    failure = attempt(_complain)
    assert isinstance(failure, Failure)
    assert failure.error.startswith("ValueError: two lines (")


def test_interrupt_is_not_swallowed():
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(interrupt)
