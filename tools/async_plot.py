"""A picture of what generating ahead brings, and of what it costs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from async_curves import learning_curve
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]
_CORRECTIONS = ("decoupled", "naive")
_BY_TURNS = ("sync, one core", "eta 0", "sync, both cores")
_CURVES = ("sync, one core", "eta 2, decoupled")
_FRONT = "eta "


def draw_async(rows: Rows, target: Path) -> None:
    """Draw a panel for each part that has one.

    Args:
        rows: Of all parts, each with its `section`.
        target: File to write; nothing is written where no part has a panel.
    """
    throughput = [row for row in rows if row["section"] == "throughput"]
    simulated = [
        row for row in rows if row["section"] == "simulator" and row.get("table") in ("2", "7")
    ]
    lengths = [row for row in rows if row["section"] == "staleness" and "length_bins" in row]
    panels: list[tuple[Callable[[Axes, Rows], None], Rows]] = [
        *((panel, throughput) for panel in (_draw_rates, _draw_wins, _draw_curves) if throughput),
        *([(_draw_lengths, lengths)] if lengths else []),
        *([(_draw_simulated, simulated)] if simulated else []),
    ]
    if not panels:
        return
    figure = Figure(figsize=(5.2 * len(panels), 4.2), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for panel, (draw, own) in zip(axes, panels, strict=True):
        draw(panel, own)
        panel.grid(visible=True, alpha=0.3)
        panel.legend(fontsize="small")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=120)


def _etas(rows: Rows, correction: str) -> list[str]:
    """Return the bounds of staleness that were run, as they stand in the labels, in their order."""
    suffix = f", {correction}"
    labels = {row["variant"] for row in rows if row["variant"].endswith(suffix)}
    etas = [label.removeprefix(_FRONT).removesuffix(suffix) for label in labels]
    return sorted(etas, key=lambda eta: float(eta))


def _draw_rates(panel: Axes, rows: Rows) -> None:
    def rate(variant: str) -> float:
        return median(row["tokens_per_s"] for row in rows if row["variant"] == variant)

    for correction in _CORRECTIONS:
        etas = _etas(rows, correction)
        panel.plot(etas, [rate(f"eta {eta}, {correction}") for eta in etas], "o-", label=correction)
    styles = zip(_BY_TURNS, (":", "--", "-."), strict=True)
    for variant, style in styles:
        if any(row["variant"] == variant for row in rows):
            panel.axhline(rate(variant), linestyle=style, color="grey", label=variant)
    panel.set(title="Throughput", xlabel="updates ahead, at most", ylabel="trained tokens/s")
    panel.set_ylim(bottom=0)


def _draw_wins(panel: Axes, rows: Rows) -> None:
    for number, correction in enumerate(_CORRECTIONS):
        etas = _etas(rows, correction)
        runs = [
            next(row for row in rows if row["variant"] == f"eta {eta}, {correction}")
            for eta in etas
        ]
        rates = [100 * run["win_rate"] for run in runs]
        spread = [
            [100 * (run["win_rate"] - run["win_rate_low"]) for run in runs],
            [100 * (run["win_rate_high"] - run["win_rate"]) for run in runs],
        ]
        places = [place + 0.1 * number for place in range(len(etas))]
        panel.errorbar(places, rates, yerr=spread, fmt="o", capsize=3, label=correction)
        panel.set_xticks(range(len(etas)), etas)
    panel.set(title="At the end, seed 0", xlabel="updates ahead, at most", ylabel="games won (%)")


def _draw_curves(panel: Axes, rows: Rows) -> None:
    for variant in _CURVES:
        curve = learning_curve(rows, variant)
        versions = [point.version for point in curve]
        low, high = zip(*(point.interval() for point in curve), strict=True)
        (line,) = panel.plot(versions, [100 * point.win_rate for point in curve], label=variant)
        panel.fill_between(
            versions,
            [100 * each for each in low],
            [100 * each for each in high],
            color=line.get_color(),
            alpha=0.2,
        )
    panel.set(
        title="Learning, all seeds, 95 % intervals",
        xlabel="updates before the weights that played",
        ylabel="games won (%)",
    )


def _draw_lengths(panel: Axes, rows: Rows) -> None:
    for row in rows:
        for what, style in (("submitted", "--"), ("consumed", "-")):
            counts = row[what]
            shares = [100 * count / max(1, sum(counts)) for count in counts]
            bins = [f"{most}" for most in row["length_bins"]]
            panel.plot(bins, shares, f"o{style}", label=f"{row['variant']}: {what}")
    panel.set(title="Lengths of episodes", xlabel="tokens, up to", ylabel="% of them")
    panel.set_yscale("symlog", linthresh=0.1)


def _draw_simulated(panel: Axes, rows: Rows) -> None:
    for table in ("2", "7"):
        own = [row for row in rows if row["table"] == table]
        etas = [row["eta"] for row in own]
        for what, style in (("published", "o"), ("simulated", "x--")):
            rates = [row[f"{what}_tokens_per_s"] / 1000 for row in own]
            panel.plot(etas, rates, style, label=f"AReaL, table {table}: {what}")
    panel.set(
        title="The pipeline, simulated",
        xlabel="updates ahead, at most",
        ylabel="thousand tokens/s",
    )
    panel.set_ylim(bottom=0)
