"""Where code that users wrote is called: what it raises becomes data here and nowhere else."""

from collections.abc import Callable
from dataclasses import dataclass
from traceback import extract_tb
from typing import ParamSpec, TypeVar

Result = TypeVar("Result")
Args = ParamSpec("Args")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An exception that somebody's game raised."""

    error: str
    """One line: exception type, message, and the place that raised it."""


def attempt(
    function: Callable[Args, Result], *args: Args.args, **kwargs: Args.kwargs
) -> Result | Failure:
    """Call `function` and return its result, or the failure that it ended in."""
    try:
        return function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - any fault of a game must end that game alone
        return Failure(error=_describe(error))


def _describe(error: Exception) -> str:
    frame = extract_tb(error.__traceback__)[-1]
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message} ({frame.filename}:{frame.lineno} in {frame.name})"
