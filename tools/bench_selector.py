"""Judge the selector: its rules, policies and plans, and engines that switch.

    python tools/bench_selector.py [--only NAME] [--quick] [--out FILE]

Every part is a module `selector_NAME.py` with `measure(quick: bool) -> Section`. `--only` measures
one of them anew and keeps what the file holds of the others; `--quick` is small and needs --out.
"""

from collections.abc import Sequence

from bench_section import find_measures, measure_sections
from selector_plot import draw_selector

SUBJECT = "selector"
NAMES = ("fig3", "traces", "walls", "reshard", "engine", "vllm", "collapse")
"""In the order in which they are measured and shown."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, draw and store."""
    measures = find_measures(SUBJECT, NAMES)
    measure_sections(
        SUBJECT, NAMES, arguments, description=__doc__, measures=measures, draw=draw_selector
    )


if __name__ == "__main__":
    main()
