"""One part of what is measured about the selector, and the parts in one stored file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarking import Figure

Row = Mapping[str, object]
_NAME = "section"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one `selector_NAME.py` measures; its `measure(quick)` returns this."""

    figures: Mapping[str, Figure]
    rows: Sequence[Row]
    """What the figures come from; a row with a `note` is a sentence for people."""


def merge(sections: Mapping[str, Section]) -> Section:
    """Put parts together: figures are called `NAME_figure`, and rows say whose they are."""
    return Section(
        figures={
            f"{name}_{figure}": value
            for name, section in sections.items()
            for figure, value in section.figures.items()
        },
        rows=[{_NAME: name, **row} for name, section in sections.items() for row in section.rows],
    )


def split(
    stored: Mapping[str, Any],  # Any: parsed JSON
    names: Sequence[str],
) -> dict[str, Section]:
    """Undo `merge` on the content of a stored file, which may lack some of the parts."""
    figures: dict[str, dict[str, Figure]] = {name: {} for name in names}
    rows: dict[str, list[Row]] = {name: [] for name in names}
    for full_name, values in stored["figures"].items():
        # One part's name may begin like another's: the longer one is meant.
        name = max((each for each in names if full_name.startswith(f"{each}_")), key=len)
        figures[name][full_name.removeprefix(f"{name}_")] = Figure(
            value=values["value"], unit=values["unit"], goal=values["goal"]
        )
    for row in stored["rows"]:
        rows[row[_NAME]].append({key: value for key, value in row.items() if key != _NAME})
    return {
        name: Section(figures=figures[name], rows=rows[name])
        for name in names
        if figures[name] or rows[name]
    }
