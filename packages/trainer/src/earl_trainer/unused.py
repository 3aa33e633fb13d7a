"""Options that would do nothing are refused where they are set."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any


def refuse_unused(
    section: str,
    values: Any,  # noqa: ANN401 - a section of the configuration, whichever
    names: Sequence[str],
    *,
    needs: str,
) -> None:
    """Refuse fields that are not at their default, as nothing looks at them.

    Args:
        section: Its name.
        values: The section.
        names: Of the fields.
        needs: What they would need to be looked at.

    Raises:
        ValueError: With what the first of them needs, and its value.
    """
    defaults = {field.name: field.default for field in fields(values)}
    for name in names:
        value = getattr(values, name)
        if value != defaults[name]:
            raise ValueError(
                f"{section}.{name} does nothing without {needs}: it must be {defaults[name]!r} "
                f"then, got {value!r}"
            )
