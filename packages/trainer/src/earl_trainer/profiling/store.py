"""Where profiles lie, and which of them may be used."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from earl_selector import ProfileGrid, ProfileSubject, ProfileTable

from earl_trainer.profiling.grid import RunLoad
from earl_trainer.profiling.subject import digest


def profile_path(subject: ProfileSubject, load: RunLoad) -> Path:
    """Return the file for a subject and a load in the user's cache folder.

    Source of the folder: the XDG Base Directory Specification 0.8, `$XDG_CACHE_HOME`, of which only
    absolute paths count, and by default `$HOME/.cache`.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = named if named.is_absolute() else Path.home() / ".cache"
    words = re.sub(r"[^a-z0-9]+", "-", subject.model.lower()).strip("-")
    return cache / "earl" / "profiles" / f"{words}-{digest(repr((subject, load)))}.json"


def open_table(path: Path, subject: ProfileSubject, grid: ProfileGrid) -> ProfileTable:
    """Return what a file holds of a grid, or an empty table if there is none.

    What the file holds besides is not taken over.

    Raises:
        ValueError: If the file is no profile, or one of something else.
    """
    empty = ProfileTable(subject=subject, grid=grid)
    if not path.exists():
        return empty
    stored = read_table(path, subject)
    wanted = set(grid)
    return replace(
        empty,
        points=tuple(point for point in stored.points if point.key in wanted),
        switch_s=stored.switch_s if stored.grid.degrees == grid.degrees else None,
    )


def read_table(path: Path, subject: ProfileSubject) -> ProfileTable:
    """Read a file that must be a profile of this subject.

    Raises:
        ValueError: If it cannot be read, is no profile, or one of something else.
    """
    try:
        table = ProfileTable.load(path)
        table.check_subject(subject)
    except OSError as error:
        raise ValueError(f"cannot read the profile {str(path)!r}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(error if str(path) in str(error) else f"{path}: {error}") from error
    return table


def check_answers(table: ProfileTable, load: RunLoad) -> None:
    """Refuse a table that says nothing of a degree that may be chosen, or of changing degrees.

    Raises:
        ValueError: With the rule and the degrees that there are.
    """
    wanted = [each.tp for each in load.degrees]
    measured = sorted({point.tp for point in table.points})
    if not set(wanted) <= set(measured):
        raise ValueError(
            f"a profile must hold every degree that may be chosen, {_listed(wanted)}: it holds "
            f"{_listed(measured) or 'none'}"
        )
    if len(wanted) > 1 and table.switch_s is None:
        raise ValueError("a profile must hold what a change of degree takes: finish measuring it")


def _listed(degrees: Sequence[int]) -> str:
    return ", ".join(map(str, degrees))
