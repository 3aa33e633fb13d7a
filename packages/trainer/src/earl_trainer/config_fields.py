"""Types of fields, and what holds for every section of the configuration."""

from typing import Annotated, TypeVar, dataclass_transform

from annotated_types import Ge, Gt
from pydantic import ConfigDict
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


@dataclass_transform(frozen_default=True, kw_only_default=True)
def section(cls: type[_Section]) -> type[_Section]:
    """Make a class a frozen dataclass whose values are checked and whose fields are described."""
    return dataclass(frozen=True, kw_only=True, slots=True, config=_RULES)(cls)
