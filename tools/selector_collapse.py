"""The failure that EARL tells of, and the same run with the selector: tictactoe-collapse.

    python tools/bench_selector.py --only collapse
    python tools/selector_collapse.py                # judges the stored runs again, trains nothing

Contexts grow because games are added to them; at one degree memory cuts them, with a second one the
selector changes to it in time. Mean return is that of `reward/mean`, averaged over eight steps of
reinforcement learning; the interval of the peak is Student's, from the eight steps it is made of.
Games that were played to their end are scored apart, and so is the match at the end: what is cut
lowers the return by itself.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from bench_section import Row, Section, merge, split
from benchmarking import STORE, Figure

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What is read of one run."""

    records: Sequence[Mapping[str, Any]]
    """Of the steps of reinforcement learning."""
    final_match: Mapping[str, float]


def run(seed: int, folder: Path, options: Sequence[str]) -> Trained:
    """Train once."""
    words = [str(Path(sys.executable).with_name("earl")), "train", RECIPE, "--seed", str(seed)]
    words += ["--run-dir", str(folder), "--tracking.wandb", "disabled", *options]
    subprocess.run(words, check=True, timeout=_TIMEOUT_S, stdout=subprocess.DEVNULL)
    return read_run(folder)


def read_run(folder: Path) -> Trained:
    """Read the folder of a finished run."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    summary = json.loads((folder / "summary.json").read_text())
    return Trained(
        records=[record for record in records if record.get("phase") == "rl"],
        final_match=summary["evaluation"]["after"],
    )


def smooth(values: Sequence[float]) -> list[float]:
    """Average every value with those before it, `WINDOW` of them at most."""
    return [fmean(values[max(0, end - WINDOW) : end]) for end in range(1, len(values) + 1)]


def find_peak(returns: Sequence[float]) -> int:
    """Return the last step of the best `WINDOW` of steps."""
    smoothed = smooth(returns)
    return max(range(min(WINDOW, len(returns)) - 1, len(returns)), key=smoothed.__getitem__)


def judge_returns(returns: Sequence[float], first_cut: int | None) -> Row:
    """Return the peak of a run, and how low it fell after both that and the first cuts.

    Args:
        returns: Of every step.
        first_cut: The first step of which many episodes were cut; None where none was.
    """
    smoothed, peak_step = smooth(returns), find_peak(returns)
    window = returns[max(0, peak_step + 1 - WINDOW) : peak_step + 1]
    peak = fmean(window)
    after = smoothed[-1:] if first_cut is None else smoothed[max(peak_step, first_cut) :]
    return {
        "peak_step": peak_step,
        "peak_return": peak,
        "peak_low": peak - _T * stdev(window) / sqrt(len(window)),
        "worst_return_after_cuts": min(after),
        "final_return": smoothed[-1],
    }


def judge(seed: int, label: str, trained: Trained) -> Row:
    """Condense one run."""

    def series(name: str) -> list[float]:
        return [round(float(record[name]), 4) for record in trained.records]

    returns, cuts = series("reward/mean"), series("context/cut_share")
    first_cut = next((step for step, cut in enumerate(cuts) if cut >= CUT_SHARE), None)
    outcomes = series("game/outcome_mean")
    return {
        "seed": seed,
        "selector": label,
        **judge_returns(returns, first_cut),
        "first_step_of_20_percent_cut": first_cut,
        "most_cut_share": max(cuts),
        "final_outcome_of_played_games": smooth(outcomes)[-1],
        "final_win_rate": trained.final_match["win_rate"],
        "final_match": dict(trained.final_match),
        "tp_of_steps": "".join(str(round(record["selector/tp"])) for record in trained.records),
        "returns": returns,
        "cut_shares": cuts,
        "outcomes_of_played_games": outcomes,
    }


def judge_again(row: Mapping[str, Any]) -> Row:
    """Recompute what follows from the returns and the first cut that a stored row holds."""
    return {**row, **judge_returns(row["returns"], row["first_step_of_20_percent_cut"])}


def make_figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Condense all runs: the worst of each kind; the mean where rows tell of games themselves."""

    def values(name: str, label: str) -> list[float]:
        return [float(str(row[name])) for row in rows if row["selector"] == label]

    without = zip(
        values("worst_return_after_cuts", "off"), values("peak_return", "off"), strict=True
    )
    ends = zip(values("final_return", "on"), values("peak_low", "on"), strict=True)
    known = all("final_match" in row for row in rows)
    games = {
        f"{name}_{ending}": Figure(value=fmean(values(name, label)), unit=unit, goal="")
        for name, unit in (("final_outcome_of_played_games", "score"), ("final_win_rate", "share"))
        for label, ending in (("off", "without"), ("on", "with"))
        if known
    }
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
        **games,
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


def judge_stored(target: Path) -> None:
    """Judge the runs of a stored file by the rules of today; what it lacks stays unknown."""
    stored = json.loads(target.read_text())
    names = list(dict.fromkeys(row["section"] for row in stored["rows"]))
    sections = split(stored, names)
    rows = [judge_again(row) for row in sections["collapse"].rows]
    sections["collapse"] = Section(figures=make_figures(rows), rows=rows)
    whole = merge(sections)
    figures = {name: figure.to_dict() for name, figure in whole.figures.items()}
    content = {**stored, "figures": figures, "rows": whole.rows}
    target.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    judge_stored(STORE / "selector.json")
