"""A picture of how right the memory rule is and how near each policy comes to the optimum."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

_POLICIES = {
    "selector": "selector",
    "earl": "earl: average context",
    "best_fixed": "best fixed degree of each trace",
    "throttle": "throttle: TP 4, fewer at once",
    "fixed_4": "fixed TP 4",
    "fixed_8": "fixed TP 8",
}
# Shown in place of no regret at all, which a logarithm has no place for.
_LEAST_PERCENT = 1e-3


def draw_selector(rows: Sequence[Mapping[str, Any]], target: Path) -> None:
    """Draw a panel for each part that has one.

    Args:
        rows: Of all parts, each with its `section`.
        target: File to write; nothing is written where no part has a panel.
    """
    panels = {"fig3": _draw_cells, "traces": _draw_regrets}
    shown = {name: _rows_of(rows, name) for name in panels if _rows_of(rows, name)}
    if not shown:
        return
    figure = Figure(figsize=(6 * len(shown), 4.2), layout="constrained")
    axes = figure.subplots(1, len(shown), squeeze=False)[0]
    for panel, (name, own) in zip(axes, shown.items(), strict=True):
        panels[name](panel, own)
        panel.grid(visible=True, alpha=0.3)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=120)


def _rows_of(rows: Sequence[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["section"] == name]


def _draw_cells(panel: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the speed-up of the larger degree by resident tokens, measured and predicted."""
    cells = [row for row in rows if row.get("measured_percent") is not None]
    tokens = [row["resident_tokens"] for row in cells]
    panel.plot(tokens, [row["measured_percent"] for row in cells], "o", label="measured (EARL)")
    panel.plot(tokens, [row["roofline_percent"] for row in cells], "x", label="roofline model")
    fullest = max(cells, key=lambda row: row["share_of_tp4_capacity"])
    capacity_tokens = fullest["resident_tokens"] / fullest["share_of_tp4_capacity"]
    panel.axvline(capacity_tokens, linestyle="--", color="grey", label="capacity of TP 4")
    panel.axhline(0.0, color="black", linewidth=0.8)
    panel.set_xscale("log", base=2)
    panel.set(
        title="Speed-up of TP 8 over TP 4",
        xlabel="resident tokens (responses x context)",
        ylabel="%",
    )
    panel.legend(loc="upper left")


def _draw_regrets(panel: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw for each policy its extra time over the optimum, traces sorted by it."""
    for policy, label in _POLICIES.items():
        regrets = sorted(100 * (row[f"{policy}_s"] / row["optimum_s"] - 1) for row in rows)
        shares = [100 * (place + 1) / len(regrets) for place in range(len(regrets))]
        panel.plot(shares, [max(each, _LEAST_PERCENT) for each in regrets], label=label)
    panel.set(
        title=f"Extra time over the optimum, {len(rows)} traces",
        xlabel="% of traces that lose no more",
        ylabel="%",
        yscale="log",
    )
    panel.legend(loc="lower right", fontsize="small")
