"""The picture of a run."""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from earl_trainer.evaluation.match import MatchResult
from earl_trainer.guards.hacking import CHECKUP_SCORE

Row = Mapping[str, Any]  # Any: a line of metrics.jsonl

_LINEAR_UP_TO: Final = 10
"""How many times as large as what is held a capacity may be, to be drawn on a linear axis."""


def plot_run(
    metrics_path: Path,
    evaluations: Mapping[str, tuple[int, MatchResult]],
    *,
    title: str,
    target: Path,
) -> None:
    """Draw a run's figures over its steps as a PNG.

    Args:
        metrics_path: The run's `metrics.jsonl`.
        evaluations: Name of each match -> the step it was played before, and its result.
        title: Stands above the panels.
        target: The PNG to write.
    """
    lines: list[Row] = [json.loads(line) for line in metrics_path.read_text().splitlines()]
    rows = [row for row in lines if "phase" in row]
    figure = Figure(figsize=(17, 8))
    figure.suptitle(title)
    # Fixed, as a layout that measures every label takes as long as all the drawing.
    figure.subplots_adjust(left=0.04, right=0.99, bottom=0.07, top=0.9, wspace=0.22, hspace=0.22)
    checkups = [row for row in lines if CHECKUP_SCORE in row]
    panels = figure.subplots(2, 5 if checkups else 4, sharex=True)
    (outcome, reward, illegal, cut), (context, resident, update, speed) = panels[:, :4]
    if checkups:
        _draw_checkups(panels[0, 4], panels[1, 4], checkups)
    _draw_outcomes(outcome, rows, evaluations)
    _lines(reward, rows, {"mean reward": "reward/mean"})
    reward.set(title="reward")
    _lines(illegal, rows, {"illegal replies": "game/illegal_rate"})
    illegal.set(title="replies that were no legal move", ylim=(0, None))
    _draw_cuts(cut, rows)
    _lines(context, rows, {"mean": "context/mean_tokens", "longest": "context/max_tokens"})
    context.set(title="tokens of a context", ylim=(0, None))
    _draw_resident(resident, rows)
    _draw_update(update, rows)
    _lines(
        speed,
        rows,
        {stage: f"rate/{stage}_tokens_per_s" for stage in ("rollout", "prepare", "update")},
    )
    speed.set(title="tokens per second", ylim=(0, None))
    for panel in panels.flat:
        panel.set_xlabel("step")
        _mark_phases(panel, rows)
        panel.legend(loc="upper left", fontsize="small", framealpha=0.6)
    figure.savefig(target, dpi=110)


def _draw_outcomes(
    axes: Axes, rows: Sequence[Row], evaluations: Mapping[str, tuple[int, MatchResult]]
) -> None:
    shares = {"won": "game/win_rate", "drawn": "game/draw_rate", "lost": "game/loss_rate"}
    _lines(axes, rows, shares)
    last_step = max((step for step, _ in evaluations.values()), default=0)
    for name, (step, result) in evaluations.items():
        _match(axes, name, step, result, is_late=2 * step > last_step)
    axes.set(title="outcomes (dots: matches with 95 % interval)", ylim=(0, 1))


def _draw_checkups(points: Axes, strength: Axes, checkups: Sequence[Row]) -> None:
    """Draw points per game against every fixed opponent and past weights, and the rating."""
    scores = [key for key in checkups[-1] if key.endswith("/score") and key != CHECKUP_SCORE]
    series = {key.removeprefix("checkup/").removesuffix("/score"): key for key in scores}
    series |= {"past selves": "checkup/past_selves_score", "optimal moves": "checkup/optimal_share"}
    _lines(points, checkups, {name: key for name, key in series.items() if key in checkups[-1]})
    points.set(title="checkups: points per game", ylim=(0, 1))
    steps = [row["step"] for row in checkups]
    low, high = ([row[f"checkup/elo_{end}"] for row in checkups] for end in ("low", "high"))
    _lines(strength, checkups, {"rating": "checkup/elo"})
    strength.fill_between(steps, low, high, alpha=0.2, label="95 % interval")
    strength.set(title=f"Elo, {next(iter(series))} at 0")


def _draw_cuts(axes: Axes, rows: Sequence[Row]) -> None:
    series = {
        "by any token limit": "context/truncated_share",
        "by the context's": "context/cut_share",
    }
    _lines(axes, rows, series)
    # Little is shown as little: the axis covers at least a tenth of the episodes.
    highest = max((row.get(key, 0.0) for row in rows for key in series.values()), default=0.0)
    axes.set(title="episodes that were cut", ylim=(0, max(0.1, 1.05 * highest)))


def _draw_resident(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw what the contexts in flight wanted, what the degree held, and where that changed."""
    rows = [row for row in rows if "context/resident_tokens" in row]
    steps = [row["step"] for row in rows]
    held = [row["context/resident_tokens"] for row in rows]
    room = [row["selector/capacity_tokens"] for row in rows]
    axes.plot(steps, held, label="resident", lw=1.2)
    axes.step(steps, room, where="post", linestyle="--", label="capacity of the degree in use")
    most_held, most_room = max(held, default=0.0), max(room, default=0.0)
    if most_room > _LINEAR_UP_TO * most_held > 0.0:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, None)
    axes.set(title="resident tokens")
    for before, after in itertools.pairwise(rows):
        if before["selector/tp"] != after["selector/tp"]:
            axes.axvline(after["step"], color="0.4", linestyle=":")
            axes.annotate(
                f"TP {before['selector/tp']:.0f} -> {after['selector/tp']:.0f} ",
                (after["step"], 0.02),
                xycoords=("data", "axes fraction"),
                rotation=90,
                ha="right",
                va="bottom",
                fontsize="small",
            )


def _draw_update(axes: Axes, rows: Sequence[Row]) -> None:
    series = {
        "KL": "policy/kl",
        "clip fraction": "policy/clip_fraction",
        "gradient norm": "policy/grad_norm",
    }
    _lines(axes, rows, series)
    axes.set(title="update")
    axes.set_yscale("symlog", linthresh=1e-3)


def _lines(axes: Axes, rows: Sequence[Row], series: Mapping[str, str]) -> None:
    for label, key in series.items():
        points = [(row["step"], row[key]) for row in rows if key in row]
        axes.plot([step for step, _ in points], [value for _, value in points], label=label, lw=1.2)


def _match(axes: Axes, name: str, step: int, result: MatchResult, *, is_late: bool) -> None:
    """Draw a match, its name to the side where there is room for it."""
    below, above = result.win_rate - result.win_rate_low, result.win_rate_high - result.win_rate
    axes.errorbar([step], [result.win_rate], yerr=[[below], [above]], fmt="ko", capsize=4, ms=4)
    axes.annotate(
        f" {name} {result.win_rate:.0%} ",
        (step, result.win_rate),
        ha="right" if is_late else "left",
        fontsize="small",
    )


def _mark_phases(axes: Axes, rows: Sequence[Row]) -> None:
    for before, after in itertools.pairwise(rows):
        if before["phase"] != after["phase"]:
            axes.axvline(after["step"], color="0.8", zorder=0)
