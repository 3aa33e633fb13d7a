"""A picture of simulated pipelines of asynchronous training."""

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

from earl_trainer.cli.async_table import format_eta
from earl_trainer.planning.figures import PipelineFigures


def draw_async(
    figures: Mapping[float | int, PipelineFigures],
    target: Path,
    *,
    lines: Mapping[str, float],
    points: Mapping[float | int, float],
) -> None:
    """Draw throughput by eta on the left, idle time and staleness on the right.

    Args:
        figures: Eta -> its figures, from left to right.
        target: File to write; its suffix is the format.
        lines: What else to compare with -> tokens/s; drawn as horizontal lines.
        points: Eta -> published tokens/s; drawn as crosses.

    Raises:
        ValueError: If the file cannot be written or its suffix is no format of a picture.
    """
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    speed, idle = figure.subplots(1, 2)
    names = [format_eta(eta) for eta in figures]
    values = list(figures.values())
    rates = [each.trained_tokens_per_s for each in values]
    speed.plot(names, rates, "o-C0", label="simulated")
    if points:
        speed.plot([format_eta(eta) for eta in points], list(points.values()), "xC3", ms=9,
                   label="published")  # fmt: skip
    for index, (label, rate) in enumerate(lines.items()):
        speed.axhline(rate, color="0.4", linestyle=("--", ":")[index % 2], lw=1, label=label)
    speed.set(title="throughput", ylabel="tokens per second", xlabel="eta", ylim=(0, None))
    speed.legend(loc="lower right", fontsize="small")
    for label, shares, style in (
        ("rollout devices idle", [each.rollout_idle_share for each in values], "^-C1"),
        ("training devices idle", [each.training_idle_share for each in values], "s-C2"),
    ):
        idle.plot(names, shares, style, label=label)
    idle.set(
        title="idle time; above: staleness mean (max)", ylabel="share of time", xlabel="eta",
        ylim=(0, 1.15),
    )  # fmt: skip
    for name, each in zip(names, values, strict=True):
        words = f"{each.mean_staleness:.1f} ({each.max_staleness})"
        idle.annotate(words, (name, 1.05), ha="center", fontsize="small")
    idle.legend(loc="center right", fontsize="small")
    for panel in (speed, idle):
        panel.grid(visible=True, axis="y", color="0.92")
    try:
        figure.savefig(target, dpi=120)
    except OSError as error:
        raise ValueError(f"cannot write the picture {str(target)!r}: {error.strerror}") from error
