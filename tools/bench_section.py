"""One part of what is measured about a subject, and the parts in one stored file."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from benchmarking import STORE, Figure, report

Row = Mapping[str, object]
_NAME = "section"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one `SUBJECT_NAME.py` measures; its `measure(quick)` returns this."""

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


Measure = Callable[[bool], Section]


def find_measures(subject: str, names: Sequence[str]) -> dict[str, Measure]:
    """Import the parts of a subject that there are."""
    return {
        name: cast(Measure, import_module(f"{subject}_{name}").measure)
        for name in names
        if find_spec(f"{subject}_{name}") is not None
    }


def measure_sections(
    subject: str,
    names: Sequence[str],
    arguments: Sequence[str] | None,
    *,
    description: str | None,
    measures: Mapping[str, Measure],
    draw: Callable[[Sequence[Row], Path], None] = lambda rows, target: None,
) -> None:
    """Be the command line of a subject's benchmark: measure, print, draw and store.

    Args:
        subject: Names the stored file.
        names: Of its parts, in their order.
        arguments: Of the command line; None for those of this process.
        description: Of the benchmark.
        measures: The parts that can be measured.
        draw: Draws the stored rows into a picture beside the file.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=measures, help="one part; the others stay as stored")
    parser.add_argument("--quick", action="store_true", help="few and small; needs --out")
    parser.add_argument("--out", type=Path, default=None, help="where to store the JSON")
    chosen = parser.parse_args(arguments)
    if chosen.quick and chosen.out is None:
        parser.error("--quick needs --out FILE: the stored file is of a full run")
    target: Path = chosen.out or STORE / f"{subject}.json"
    sections: dict[str, Section] = {}
    if chosen.only is not None and target.exists():
        sections = split(json.loads(target.read_text()), names)
    for name in measures if chosen.only is None else (chosen.only,):
        print(f"measuring {name} ...", flush=True)
        sections[name] = measures[name](chosen.quick)
    whole = merge({name: sections[name] for name in names if name in sections})
    for row in whole.rows:
        if "note" in row:
            print(f"- {row['note']}")
    draw(whole.rows, target.with_suffix(".png"))
    report(whole.figures, whole.rows, target=target)
