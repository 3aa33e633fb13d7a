"""Options that would do nothing are refused where they are set."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any


def refuse_unused(
    section: str,
    values: Any,  # noqa: ANN401 - a section of the configuration, whichever
    names: Sequence[str],
    why: str,
) -> None:
    """Refuse fields that are not at their default, as nothing looks at them.

    Args:
        section: Its name.
        values: The section.
        names: Of the fields.
        why: Nothing looks at them.

    Raises:
        ValueError: With the reason, and the field and its value.
    """
    defaults = {field.name: field.default for field in fields(values)}
    for name in names:
        value, default = getattr(values, name), defaults[name]
        if value != default:
            needed = "null" if default is None else repr(default)
            raise ValueError(f"{why}: {section}.{name} must be {needed}, got {value!r}")
