"""The failure that EARL tells of, and the same run with the selector: tictactoe-collapse.

    python tools/bench_selector.py --only collapse

Contexts grow because games are added to them; at one degree memory cuts them, with a second one the
selector changes to it in time. Mean return is that of `reward/mean`, averaged over eight steps of
reinforcement learning; the interval of the peak is Student's, from the eight steps it is made of.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from bench_section import Row, Section
from benchmarking import Figure

RECIPE = "tictactoe-collapse"
SEEDS = (0, 1, 2, 3, 4)
WINDOW = 8
CUT_SHARE = 0.2
"""From which share of cut episodes on the return is looked at."""
# Student's t for 95 % and WINDOW - 1 degrees of freedom.
_T = 2.365
_WITHOUT: tuple[str, ...] = ()
_WITH = ("--selector.tp-degrees", "1,2", "--selector.num-devices", "2")
_TIMEOUT_S = 1800.0
_QUICK = ("--warmup.num-steps", "4", "--learner.num-steps", "12", "--evaluation.num-games", "20")


def run(seed: int, folder: Path, options: Sequence[str]) -> list[dict[str, Any]]:
    """Train once and return the records of the steps of reinforcement learning."""
    words = [str(Path(sys.executable).with_name("earl")), "train", RECIPE, "--seed", str(seed)]
    words += ["--run-dir", str(folder), "--tracking.wandb", "disabled", *options]
    subprocess.run(words, check=True, timeout=_TIMEOUT_S, stdout=subprocess.DEVNULL)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [record for record in records if record.get("phase") == "rl"]


def smooth(values: Sequence[float]) -> list[float]:
    """Average every value with those before it, `WINDOW` of them at most."""
    return [fmean(values[max(0, end - WINDOW) : end]) for end in range(1, len(values) + 1)]


def judge(seed: int, label: str, records: Sequence[dict[str, Any]]) -> Row:
    """Condense one run."""
    returns = [float(record["reward/mean"]) for record in records]
    cuts = [float(record["context/cut_share"]) for record in records]
    smoothed = smooth(returns)
    peak_step = max(range(min(WINDOW, len(returns)) - 1, len(returns)), key=smoothed.__getitem__)
    window = returns[max(0, peak_step + 1 - WINDOW) : peak_step + 1]
    peak = fmean(window)
    low = peak - _T * stdev(window) / sqrt(len(window))
    first_cut = next((step for step, cut in enumerate(cuts) if cut >= CUT_SHARE), None)
    after = smoothed[first_cut:] if first_cut is not None else [smoothed[-1]]
    return {
        "seed": seed,
        "selector": label,
        "peak_return": peak,
        "peak_low": low,
        "worst_return_after_cuts": min(after),
        "final_return": smoothed[-1],
        "first_step_of_20_percent_cut": first_cut,
        "most_cut_share": max(cuts),
        "tp_of_steps": "".join(str(round(record["selector/tp"])) for record in records),
        "returns": [round(each, 4) for each in returns],
    }


def make_figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Condense all runs: the worst of each kind."""

    def values(name: str, label: str) -> list[float]:
        return [float(str(row[name])) for row in rows if row["selector"] == label]

    without = zip(
        values("worst_return_after_cuts", "off"), values("peak_return", "off"), strict=True
    )
    ends = zip(values("final_return", "on"), values("peak_low", "on"), strict=True)
    return {
        "return_over_peak_without": Figure(
            value=max(worst / peak for worst, peak in without), unit="ratio", goal="< 0.5"
        ),
        "most_cut_share_without": Figure(
            value=min(values("most_cut_share", "off")), unit="share", goal=">= 0.2"
        ),
        "most_cut_share_with": Figure(
            value=max(values("most_cut_share", "on")), unit="share", goal="== 0"
        ),
        "final_above_peaks_interval_with": Figure(
            value=min(final - low for final, low in ends), unit="return", goal=">= 0"
        ),
    }


def measure(quick: bool) -> Section:
    """Run five seeds without and with the selector; one short run of each if quick."""
    rows: list[Row] = []
    for seed in SEEDS[:1] if quick else SEEDS:
        for label, options in (("off", _WITHOUT), ("on", _WITH)):
            with tempfile.TemporaryDirectory() as folder:
                extra = _QUICK if quick else ()
                rows.append(judge(seed, label, run(seed, Path(folder) / "run", (*options, *extra))))
    return Section(figures=make_figures(rows), rows=rows)
