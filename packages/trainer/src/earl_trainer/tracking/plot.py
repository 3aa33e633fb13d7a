"""The picture of a run."""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from earl_trainer.evaluation.match import MatchResult

Row = Mapping[str, Any]  # Any: a line of metrics.jsonl


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
    figure = Figure(figsize=(13, 8), layout="constrained")
    figure.suptitle(title)
    panels = figure.subplots(2, 3, sharex=True)
    (outcome, illegal, reward), (context, update, speed) = panels
    _draw_outcomes(outcome, rows, evaluations)
    _lines(
        illegal, rows, {"illegal replies": "game/illegal_rate", "cut": "context/truncated_share"}
    )
    illegal.set(title="replies that were no legal move", ylim=(0, None))
    _lines(reward, rows, {"mean reward": "reward/mean"})
    reward.set(title="reward")
    _draw_context(context, rows)
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
        panel.legend(fontsize="small")
    figure.savefig(target, dpi=110)


def _draw_outcomes(
    axes: Axes, rows: Sequence[Row], evaluations: Mapping[str, tuple[int, MatchResult]]
) -> None:
    shares = {"won": "game/win_rate", "drawn": "game/draw_rate", "lost": "game/loss_rate"}
    _lines(axes, rows, shares)
    for name, (step, result) in evaluations.items():
        _match(axes, name, step, result)
    axes.set(title="outcomes (dots: matches with 95 % interval)", ylim=(0, 1))


def _draw_context(axes: Axes, rows: Sequence[Row]) -> None:
    _lines(axes, rows, {"mean": "context/mean_tokens", "max": "context/max_tokens"})
    axes.set(title="context and TP", ylabel="tokens", ylim=(0, None))
    degrees = axes.twinx()
    steps, chosen = [row["step"] for row in rows], [row["selector/tp"] for row in rows]
    degrees.step(steps, chosen, where="post", color="0.5", linestyle=":")
    degrees.set(ylabel="TP degree (dotted)", ylim=(0, None))


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


def _match(axes: Axes, name: str, step: int, result: MatchResult) -> None:
    below, above = result.win_rate - result.win_rate_low, result.win_rate_high - result.win_rate
    axes.errorbar([step], [result.win_rate], yerr=[[below], [above]], fmt="ko", capsize=4, ms=4)
    axes.annotate(f" {name} {result.win_rate:.0%}", (step, result.win_rate), fontsize="small")


def _mark_phases(axes: Axes, rows: Sequence[Row]) -> None:
    for before, after in itertools.pairwise(rows):
        if before["phase"] != after["phase"]:
            axes.axvline(after["step"], color="0.8", zorder=0)
