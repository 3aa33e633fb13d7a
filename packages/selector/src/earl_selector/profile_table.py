"""Measured throughput on a grid of degrees, responses and contexts, kept as a JSON file."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Any, Final, final

FORMAT_VERSION: Final = 1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSubject:
    """What was measured; a profile says nothing of any other."""

    model: str
    device: str
    engine: str
    """Name and version, as another version may be faster or slower."""

    def __post_init__(self) -> None:
        if not (self.model and self.device and self.engine):
            raise ValueError(f"a profile needs a model, a device and an engine, got {self}")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileGrid:
    """The points that are to be measured."""

    degrees: tuple[int, ...]
    num_responses: tuple[int, ...]
    context_tokens: tuple[int, ...]

    def __post_init__(self) -> None:
        for name, axis in asdict(self).items():
            if not axis:
                raise ValueError(f"{name} of a profile's grid must not be empty")
            if list(axis) != sorted(set(axis)) or axis[0] < 1:
                raise ValueError(f"{name} of a profile's grid must rise from >= 1, got {axis}")

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Walk the points (degree, responses, context), one degree after the other."""
        return product(self.degrees, self.num_responses, self.context_tokens)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilePoint:
    """One measurement."""

    tp: int
    num_responses: int
    context_tokens: int
    tokens_per_s_per_device: float
    """0.0 where the engine could not run the load."""

    def __post_init__(self) -> None:
        speed = self.tokens_per_s_per_device
        if not (isfinite(speed) and speed >= 0.0):
            raise ValueError(f"tokens_per_s_per_device must be finite and >= 0, got {speed}")

    @property
    def key(self) -> tuple[int, int, int]:
        """Return where on the grid it lies: degree, responses, context."""
        return self.tp, self.num_responses, self.context_tokens


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileTable:
    """The measurements of one model on one kind of device with one engine, perhaps unfinished.

    Example:
        >>> table = ProfileTable(
        ...     subject=ProfileSubject(model="tiny", device="cpu", engine="embedded 1"),
        ...     grid=ProfileGrid(degrees=(1, 2), num_responses=(8,), context_tokens=(256,)),
        ... )
        >>> point = ProfilePoint(
        ...     tp=1, num_responses=8, context_tokens=256, tokens_per_s_per_device=90.0
        ... )
        >>> table.add(point).missing()
        ((2, 8, 256),)
    """

    subject: ProfileSubject
    grid: ProfileGrid
    points: tuple[ProfilePoint, ...] = ()
    """In the order in which they were measured, each once."""
    switch_s: float | None = None
    """What a change of degree took; None while none was measured."""

    def __post_init__(self) -> None:
        known = set(self.grid)
        keys = [point.key for point in self.points]
        for key in keys:
            if key not in known:
                raise ValueError(f"point (tp, responses, context) {key} is not on the grid")
        if len(set(keys)) != len(keys):
            raise ValueError("a profile holds each point once, got one of them twice")

    def missing(self) -> tuple[tuple[int, int, int], ...]:
        """Return the points (degree, responses, context) that are still to be measured."""
        measured = {point.key for point in self.points}
        return tuple(key for key in self.grid if key not in measured)

    def add(self, point: ProfilePoint) -> "ProfileTable":
        """Return the table with one more measurement.

        Raises:
            ValueError: If it is not on the grid or is there already.
        """
        return replace(self, points=(*self.points, point))

    def check_subject(self, subject: ProfileSubject) -> None:
        """Refuse to stand for anything but what was measured.

        Raises:
            ValueError: With the field, what was measured and what was asked for.
        """
        for name, measured in asdict(self.subject).items():
            wanted = getattr(subject, name)
            if wanted != measured:
                raise ValueError(
                    f"the profile was measured for {name} {measured!r}, this run has {wanted!r}: "
                    "measure again"
                )

    def save(self, path: Path) -> None:
        """Write the table; a reader, or a crash half-way, never sees half a file."""
        content = json.dumps({"format_version": FORMAT_VERSION, **asdict(self)}, indent=1)
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text(content + "\n")
        os.replace(partial, path)

    @classmethod
    def load(cls, path: Path) -> "ProfileTable":
        """Read a table.

        Raises:
            ValueError: If the file is no profile, or one of another format version.
        """
        try:
            values = json.loads(path.read_text())
            found = values["format_version"]
            if found == FORMAT_VERSION:
                return _read_table(values)
        except (KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not a profile: {error}") from error
        raise ValueError(
            f"{path} has format version {found}, this release reads {FORMAT_VERSION}: measure again"
        )


def _read_table(values: dict[str, Any]) -> ProfileTable:  # Any: parsed JSON
    return ProfileTable(
        subject=ProfileSubject(**values["subject"]),
        grid=ProfileGrid(**{name: tuple(axis) for name, axis in values["grid"].items()}),
        points=tuple(ProfilePoint(**point) for point in values["points"]),
        switch_s=values["switch_s"],
    )
