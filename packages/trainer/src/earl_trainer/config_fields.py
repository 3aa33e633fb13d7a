"""Types of fields, and what holds for every section of the configuration."""

from typing import Annotated, TypeVar, cast, dataclass_transform

from annotated_types import Ge, Gt
from pydantic import BeforeValidator, ConfigDict
from pydantic.dataclasses import dataclass

_RULES = ConfigDict(
    extra="forbid", use_attribute_docstrings=True, validate_default=True, allow_inf_nan=False
)
_Section = TypeVar("_Section")

AUTO = "auto"
"""Leaves a value to what else is configured."""

PositiveInt = Annotated[int, Ge(1)]
PositiveFloat = Annotated[float, Gt(0.0)]
NonNegativeInt = Annotated[int, Ge(0)]
NonNegativeFloat = Annotated[float, Ge(0.0)]

_Value = TypeVar("_Value")


def _read_null(value: object) -> object:
    """Files and flags hold text; so YAML writes None."""
    return None if value == "null" else value


OrNone = Annotated[_Value | None, BeforeValidator(_read_null)]
"""A value, or None, which leaves it to what else is configured."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def section(cls: type[_Section]) -> type[_Section]:
    """Make a class a frozen dataclass whose values are checked and whose fields are described."""
    made = dataclass(frozen=True, kw_only=True, slots=True, config=_RULES)(cls)
    return cast("type[_Section]", made)
