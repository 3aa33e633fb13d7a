"""A picture of what each algorithm learns: where it ends, and the way there."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from algorithms_pool import Pooled, Rate, Row, pool
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_WINDOW_STEPS = 4


def draw_algorithms(rows: Sequence[Row], target: Path) -> None:
    """Draw the win rates at the end, the lowest first, and the curves beside them.

    Args:
        rows: Of runs; nothing is written without any.
        target: File to write.
    """
    pooled = sorted(pool(rows), key=lambda each: each.after.rate)
    if not pooled:
        return
    figure = Figure(figsize=(11.0, 0.32 * len(pooled) + 2.4), layout="constrained")
    ends, curves = figure.subplots(1, 2)
    _draw_ends(ends, pooled)
    _draw_curves(curves, pooled)
    for panel in (ends, curves):
        panel.grid(visible=True, alpha=0.3)
    figure.savefig(target, dpi=120)


def _draw_ends(panel: Axes, pooled: Sequence[Pooled]) -> None:
    stages: list[tuple[str, list[Rate]]] = [
        ("after warm-up", [each.before for each in pooled]),
        ("at the end", [each.after for each in pooled]),
    ]
    for label, rates in stages:
        panel.errorbar(
            [rate.rate for rate in rates],
            range(len(rates)),
            xerr=[
                [rate.rate - rate.low for rate in rates],
                [rate.high - rate.rate for rate in rates],
            ],
            fmt="o",
            capsize=3,
            label=label,
        )
    panel.set_yticks(range(len(pooled)), [each.algorithm for each in pooled])
    panel.set_xlabel("games won against random, 95 % intervals, seeds pooled")
    panel.legend(fontsize="small")


def _draw_curves(panel: Axes, pooled: Sequence[Pooled]) -> None:
    for each in reversed(pooled):
        windows = [
            each.curve[first : first + _WINDOW_STEPS]
            for first in range(0, len(each.curve), _WINDOW_STEPS)
        ]
        steps = [(place + 0.5) * _WINDOW_STEPS for place in range(len(windows))]
        panel.plot(steps, [fmean(window) for window in windows], label=each.algorithm)
    panel.set_xlabel(f"step (means of {_WINDOW_STEPS})")
    panel.set_ylabel("episodes won")
    panel.legend(fontsize="x-small", ncols=2)
