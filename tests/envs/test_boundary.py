"""Exceptions of user code as data."""

import sys

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


class _Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class _Odd(Exception):
    def __str__(self):
        return 3


@pytest.mark.parametrize("kind", [_Mute, _Odd])
def test_exception_that_cannot_be_printed_is_told_by_its_type(kind):
    def fail() -> None:
        raise kind

    failure = attempt(fail)
    assert isinstance(failure, Failure)
    assert failure.error.startswith(f"{kind.__name__} (")
    assert failure.error.endswith("in fail)")


def test_exit_is_not_swallowed():
    with pytest.raises(SystemExit):
        attempt(sys.exit)
