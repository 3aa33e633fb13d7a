"""What `reset` and `step` are given, checked."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def check_options(options: Mapping[str, Any] | None, valid: Sequence[str] = ()) -> None:
    """Refuse options of `reset` that would do nothing.

    Raises:
        ValueError: If one is not among the valid ones.
    """
    for name in options or ():
        if name not in valid:
            raise ValueError(
                f"reset() takes no option {name!r} (valid: {', '.join(valid) or 'none'})"
            )


def as_action(action: object) -> int:
    """Return an action as an int.

    Raises:
        ValueError: If it is no integer; a bool or a float is none.
    """
    if isinstance(action, bool | np.bool_):
        raise ValueError(f"an action must be an integer, got {action!r}")  # noqa: TRY004
    try:
        return operator.index(action)  # pyright: ignore[reportArgumentType] - refused by itself
    except TypeError:
        raise ValueError(f"an action must be an integer, got {action!r}") from None
