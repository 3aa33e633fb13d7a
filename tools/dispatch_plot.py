"""A picture of measured transfers beside their floors."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure


def draw_times(rows: Sequence[Mapping[str, Any]], target: Path) -> None:
    """Draw time by context, one panel for each number of hosts; floors are dashed.

    Args:
        rows: Measurements with `hosts`, `tokens_per_row`, `transport`, `seconds`, `floor_s`.
        target: File to write.
    """
    numbers = sorted({row["hosts"] for row in rows})
    transports = list(dict.fromkeys(row["transport"] for row in rows))
    figure = Figure(figsize=(4 * len(numbers), 3.6), layout="constrained")
    panels = figure.subplots(1, len(numbers), sharey=True, squeeze=False)[0]
    for panel, num_hosts in zip(panels, numbers, strict=True):
        for color, transport in zip(mpl.color_sequences["tab10"], transports, strict=False):
            here = [
                row for row in rows if row["hosts"] == num_hosts and row["transport"] == transport
            ]
            tokens = [row["tokens_per_row"] for row in here]
            panel.plot(tokens, [row["seconds"] for row in here], "o-", color=color, label=transport)
            panel.plot(tokens, [row["floor_s"] for row in here], "--", color=color)
        panel.set(
            title=f"{num_hosts} hosts", xlabel="tokens of a row", yscale="log",
            xticks=sorted({row["tokens_per_row"] for row in rows}),
        )  # fmt: skip
    panels[0].set_ylabel("seconds (dashed: floor)")
    panels[0].legend()
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=120)
