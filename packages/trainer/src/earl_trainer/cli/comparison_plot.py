"""A picture of simulated transfers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from earl_dispatch.comparison import Comparison
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_STYLES: Final[Mapping[str, str]] = MappingProxyType({
    "all_to_all": "o-C0",
    "pipelined": "s-C1",
    "gather_scatter": "^-C3",
    # The same bytes as the controller's, so that the same points have both marks.
    "ray_store": "xk",
})


def draw_comparisons(comparisons: Sequence[Comparison], target: Path) -> None:
    """Draw the times of every comparison in a panel of its own, over the floor.

    Args:
        comparisons: From left to right.
        target: File to write; its suffix is the format.

    Raises:
        ValueError: If the file cannot be written or its suffix is no format of a picture.
    """
    figure = Figure(figsize=(1.5 + 4.5 * len(comparisons), 4.6), layout="constrained")
    panels = figure.subplots(1, len(comparisons), sharey=True, squeeze=False)[0]
    for panel, comparison in zip(panels, comparisons, strict=True):
        _draw(panel, comparison)
    panels[0].set_ylabel("seconds (logarithmic)")
    panels[0].legend(loc="upper left", fontsize="small")
    caption = "above gather_scatter: its time over all_to_all's"
    if any(comparison.measured_ratios for comparison in comparisons):
        caption += "; in brackets: as the paper measured it"
    figure.supxlabel(caption, fontsize="small")
    try:
        figure.savefig(target, dpi=120)
    except OSError as error:
        raise ValueError(f"cannot write the picture {str(target)!r}: {error.strerror}") from error


def _draw(panel: Axes, comparison: Comparison) -> None:
    names = [each.scenario.name for each in comparison.simulated]
    for transport in comparison.transports:
        seconds = [each.seconds[transport] for each in comparison.simulated]
        panel.plot(names, seconds, _STYLES[transport], label=transport, ms=6)
    floors = [each.floor_s for each in comparison.simulated]
    panel.plot(names, floors, "_--k", label="floor (no scheme goes below)", ms=14, lw=1)
    for place, each in enumerate(comparison.simulated):
        label = f"{each.ratio('gather_scatter'):.0f}x"
        if comparison.measured_ratios:
            label += f"\n({comparison.measured_ratios[place]:g}x)"
        panel.annotate(
            label,
            (place, each.seconds["gather_scatter"]),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize="small",
        )
    panel.set_title(comparison.title, fontsize="medium")
    panel.set_yscale("log")
    panel.margins(x=0.1, y=0.14)
    panel.grid(visible=True, axis="y", color="0.9")
