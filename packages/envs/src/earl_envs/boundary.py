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
    """Call `function` and return its result, or the failure that it ended in.

    Raises:
        KeyboardInterrupt: If the user asks to stop; `SystemExit` passes through as well. Both are
            meant for the process, not for one game of it.
    """
    try:
        return function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - any fault of a game must end that game alone
        return Failure(error=_describe(error))


def _describe(error: Exception) -> str:
    kind, frame = type(error).__name__, extract_tb(error.__traceback__)[-1]
    try:
        message = f"{kind}: {' '.join(str(error).split())}"
    except Exception:  # noqa: BLE001 - its own text is the user's code as well
        message = kind
    return f"{message} ({frame.filename}:{frame.lineno} in {frame.name})"
