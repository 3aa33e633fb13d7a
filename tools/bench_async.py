"""Judge asynchronous training: throughput, staleness, generation, packing, and the simulator.

    python tools/bench_async.py [--only NAME] [--quick] [--out FILE]

Every part is a module `async_NAME.py` with `measure(quick: bool) -> Section`. `--only` measures one
of them anew and keeps what the file holds of the others; `--quick` is small and needs --out.
"""

from collections.abc import Sequence

from async_plot import draw_async
from bench_section import find_measures, measure_sections

SUBJECT = "async"
NAMES = ("simulator", "packing", "generation", "publication", "staleness", "throughput")
"""In the order in which they are measured and shown."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, draw and store."""
    measures = find_measures(SUBJECT, NAMES)
    measure_sections(
        SUBJECT, NAMES, arguments, description=__doc__, measures=measures, draw=draw_async
    )


if __name__ == "__main__":
    main()
