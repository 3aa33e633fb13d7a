"""Judge the selector: its rules, policies and plans, and engines that switch.

    python tools/bench_selector.py [--only NAME] [--quick] [--out FILE]

Every part is a module `selector_NAME.py` with `measure(quick: bool) -> Section`. `--only` measures
one of them anew and keeps what the file holds of the others; `--quick` is small and needs --out.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from benchmarking import STORE, report
from selector_plot import draw_selector
from selector_section import Section, merge, split

Measure = Callable[[bool], Section]
NAMES = ("fig3", "traces", "reshard", "engine", "vllm", "collapse")
"""In the order in which they are measured and shown."""


def find_measures() -> dict[str, Measure]:
    """Import the parts that there are."""
    return {
        name: cast(Measure, import_module(f"selector_{name}").measure)
        for name in NAMES
        if find_spec(f"selector_{name}") is not None
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, draw and store."""
    measures = find_measures()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=measures, help="one part; the others stay as stored")
    parser.add_argument("--quick", action="store_true", help="few and small; needs --out")
    parser.add_argument("--out", type=Path, default=None, help="where to store the JSON")
    chosen = parser.parse_args(arguments)
    if chosen.quick and chosen.out is None:
        parser.error("--quick needs --out FILE: the stored file is of a full run")
    target: Path = chosen.out or STORE / "selector.json"
    sections: dict[str, Section] = {}
    if chosen.only is not None and target.exists():
        sections = split(json.loads(target.read_text()), NAMES)
    for name in measures if chosen.only is None else (chosen.only,):
        print(f"measuring {name} ...", flush=True)
        sections[name] = measures[name](chosen.quick)
    whole = merge({name: sections[name] for name in NAMES if name in sections})
    for row in whole.rows:
        if "note" in row:
            print(f"- {row['note']}")
    draw_selector(whole.rows, target.with_suffix(".png"))
    report(whole.figures, whole.rows, target=target)


if __name__ == "__main__":
    main()
