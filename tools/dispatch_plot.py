"""A picture of measured transfers beside their floors."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

_NAMES = {
    "all_to_all": "all_to_all: straight to where it is needed",
    "gather_scatter": "gather_scatter: through rank 0",
    "pipelined": "pipelined: through rank 0, both ways at once",
    "ray_store": "ray_store: through rank 0 and Ray's object store",
}


def draw_times(rows: Sequence[Mapping[str, Any]], target: Path) -> None:
    """Draw time by context, one panel for each number of hosts; floors are dashed.

    Args:
        rows: Measurements with `hosts`, `tokens_per_row`, `transport`, `seconds`, `floor_s`.
        target: File to write.
    """
    numbers = sorted({row["hosts"] for row in rows})
    transports = list(dict.fromkeys(row["transport"] for row in rows))
    colors = dict(zip(transports, mpl.color_sequences["tab10"], strict=False))
    figure = Figure(figsize=(4 * len(numbers), 4.2), layout="constrained")
    panels = figure.subplots(1, len(numbers), sharey=True, squeeze=False)[0]
    for panel, num_hosts in zip(panels, numbers, strict=True):
        for transport in transports:
            here = [
                row for row in rows if row["hosts"] == num_hosts and row["transport"] == transport
            ]
            _draw_transport(panel, here, colors[transport])
        ticks = sorted({row["tokens_per_row"] for row in rows})
        panel.set(title=f"{num_hosts} hosts", xlabel="tokens of a row", yscale="log", xticks=ticks)
        panel.grid(visible=True, axis="y", alpha=0.3)
    _scale(panels[0], [row[name] for row in rows for name in ("seconds", "floor_s")])
    panels[0].set_ylabel("seconds")
    handles = [
        *(
            Line2D([], [], marker="o", color=color, label=_NAMES.get(transport, transport))
            for transport, color in colors.items()
        ),
        Line2D([], [], linestyle="--", color="grey", label="dashed: the network's floor"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(numbers), 3))
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=120)


def _draw_transport(panel: Axes, rows: Sequence[Mapping[str, Any]], color: object) -> None:
    tokens = [row["tokens_per_row"] for row in rows]
    panel.plot(tokens, [row["floor_s"] for row in rows], "--", color=color, linewidth=1)
    panel.plot(tokens, [row["seconds"] for row in rows], "o-", color=color, markersize=4)


def _scale(panel: Axes, seconds: Sequence[float]) -> None:
    """Mark 1, 2 and 5 of every power of ten, in plain numbers."""
    marks = [digit * 10.0**power for power in range(-4, 5) for digit in (1, 2, 5)]
    low, high = min(seconds), max(seconds)
    panel.yaxis.set_major_locator(FixedLocator([m for m in marks if low / 2 < m < high * 2]))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter("{x:g}")
