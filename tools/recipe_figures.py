"""What a measured run of a recipe has to reach."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from benchmarking import Figure
from earl_trainer.preference.recipes import OFFLINE_RECIPES

TINY, SMOLLM2, CONNECT_FOUR = "tictactoe-tiny", "tictactoe-smollm2", "connectfour-tiny"
RLHF, REWARD_MODEL = "tictactoe-rlhf", "reward-model"
LEARNING = (*(config.recipe for config in OFFLINE_RECIPES), RLHF)
"""Judged by whether they win more than after warm-up."""
_RATED_OPPONENTS = ("negamax:2", "negamax:4")
_LAST_STEPS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One finished run."""

    recipe: str
    seed: int
    wall_s: float
    peak_bytes: int
    summary: dict[str, Any]
    repeatable_rows: list[dict[str, Any]]

    def row(self) -> dict[str, object]:
        """Return what is stored of the run."""
        return {
            "recipe": self.recipe,
            "seed": self.seed,
            "wall_s": self.wall_s,
            "peak_bytes": self.peak_bytes,
            "steps": self.summary["steps"],
            "num_parameters": self.summary["num_parameters"],
            "evaluation": self.summary["evaluation"],
            "gain": self.summary["gain"],
            "checkup": self.summary["checkups"]["latest"],
        }


def tiny_figures(runs: Sequence[Measured]) -> dict[str, Figure]:
    """Judge the small recipe: the worst seed, the longest time, the largest memory."""
    before = [run.summary["evaluation"]["before"] for run in runs]
    after = [run.summary["evaluation"]["after"] for run in runs]
    pairs = list(zip(before, after, strict=True))
    repeats = [run for run in runs if run.seed == runs[0].seed]
    same = all(run.repeatable_rows == repeats[0].repeatable_rows for run in repeats)
    return {
        "tiny_illegal_rate_after_warmup": Figure(
            value=max(b["illegal_rate"] for b in before), unit="of replies", goal="< 0.10"
        ),
        "tiny_win_rate_gain_by_rl": Figure(
            value=min(a["win_rate"] - b["win_rate"] for b, a in pairs), unit="", goal=">= 0.15"
        ),
        "tiny_gap_between_intervals": Figure(
            value=min(a["win_rate_low"] - b["win_rate_high"] for b, a in pairs), unit="", goal="> 0"
        ),
        "tiny_win_rate": Figure(value=min(a["win_rate"] for a in after), unit="", goal=">= 0.58"),
        "tiny_illegal_rate": Figure(
            value=max(a["illegal_rate"] for a in after), unit="of replies", goal="< 0.02"
        ),
        "tiny_wall": Figure(value=max(run.wall_s for run in runs), unit="s", goal="<= 300"),
        "tiny_peak_memory": Figure(
            value=max(run.peak_bytes for run in runs) / 2**30, unit="GiB", goal="<= 4"
        ),
        "tiny_runs_of_one_seed_identical": Figure(
            value=float(same and len(repeats) > 1), unit="", goal="== 1"
        ),
    }


def smollm2_figures(runs: Sequence[Measured]) -> dict[str, Figure]:
    """Judge the pretrained recipe by its one run."""
    (run,) = runs
    initial, after = (run.summary["evaluation"][name] for name in ("initial", "after"))
    gain = run.summary["gain"]["after_warmup"]
    return {
        "smollm2_illegal_rate_untrained": Figure(
            value=initial["illegal_rate"], unit="of replies", goal=""
        ),
        "smollm2_illegal_rate": Figure(
            value=after["illegal_rate"], unit="of replies", goal="< 0.15"
        ),
        "smollm2_gap_between_intervals": Figure(
            value=after["win_rate_low"] - initial["win_rate_high"], unit="", goal="> 0"
        ),
        "smollm2_win_rate": Figure(value=after["win_rate"], unit="", goal=""),
        "smollm2_win_rate_gain_by_rl": Figure(value=gain["win_rate"], unit="", goal=""),
        "smollm2_win_rate_gain_by_rl_low": Figure(value=gain["low"], unit="", goal=""),
        "smollm2_win_rate_gain_by_rl_high": Figure(value=gain["high"], unit="", goal=""),
        "smollm2_wall": Figure(value=run.wall_s, unit="s", goal="<= 2700"),
        "smollm2_peak_memory": Figure(value=run.peak_bytes / 2**30, unit="GiB", goal="< 8"),
    }


def connect_four_figures(runs: Sequence[Measured]) -> dict[str, Figure]:
    """Judge Connect Four by its one run; against search it is only told how it does."""
    (run,) = runs
    degrees = [row["selector/tp"] for row in run.repeatable_rows if "selector/tp" in row]
    checkup = run.summary["checkups"]["latest"]
    after = run.summary["evaluation"]["after"]
    return {
        **_gain_figures("connectfour", run),
        "connectfour_illegal_rate": Figure(
            value=after["illegal_rate"], unit="of replies", goal="< 0.02"
        ),
        "connectfour_wall": Figure(value=run.wall_s, unit="s", goal="<= 1800"),
        "connectfour_peak_memory": Figure(value=run.peak_bytes / 2**30, unit="GiB", goal=""),
        "connectfour_highest_tp": Figure(value=max(degrees), unit="ranks", goal=">= 2"),
        **{
            f"connectfour_points_against_{name.replace(':', '_')}": Figure(
                value=checkup[f"checkup/{name}/score"], unit="per game", goal=""
            )
            for name in _RATED_OPPONENTS
        },
    }


def learning_figures(prefix: str, runs: Sequence[Measured]) -> dict[str, Figure]:
    """Judge a recipe by what it gains after warm-up."""
    (run,) = runs
    return {
        f"{prefix}_gap_between_intervals": _gap(run),
        f"{prefix}_win_rate": Figure(
            value=run.summary["evaluation"]["after"]["win_rate"], unit="", goal=""
        ),
        f"{prefix}_wall": Figure(value=run.wall_s, unit="s", goal=""),
        f"{prefix}_peak_memory": Figure(value=run.peak_bytes / 2**30, unit="GiB", goal=""),
    }


def reward_model_figures(runs: Sequence[Measured]) -> dict[str, Figure]:
    """Judge a reward model by the pairs of its last steps, none of which it has learned from."""
    (run,) = runs
    told = [row["policy/accuracy"] for row in run.repeatable_rows if "policy/accuracy" in row]
    return {
        "reward_model_accuracy": Figure(
            value=fmean(told[-_LAST_STEPS:]), unit="of pairs", goal="> 0.5"
        ),
        "reward_model_wall": Figure(value=run.wall_s, unit="s", goal=""),
    }


def _gain_figures(prefix: str, run: Measured) -> dict[str, Figure]:
    gain = run.summary["gain"]["after_warmup"]["win_rate"]
    return {
        f"{prefix}_win_rate_gain": Figure(value=gain, unit="", goal=">= 0.10"),
        f"{prefix}_gap_between_intervals": _gap(run),
    }


def _gap(run: Measured) -> Figure:
    before, after = (run.summary["evaluation"][name] for name in ("before", "after"))
    gap = after["win_rate_low"] - before["win_rate_high"]
    return Figure(value=gap, unit="", goal="> 0")


def _prefix(recipe: str) -> str:
    return recipe.removeprefix("tictactoe-").replace("-", "_")


FIGURE_PREFIX: Mapping[str, str] = {
    CONNECT_FOUR: "connectfour",
    **{recipe: _prefix(recipe) for recipe in (TINY, SMOLLM2, *LEARNING, REWARD_MODEL)},
}
JUDGES: Mapping[str, Callable[[Sequence[Measured]], dict[str, Figure]]] = {
    TINY: tiny_figures,
    SMOLLM2: smollm2_figures,
    CONNECT_FOUR: connect_four_figures,
    REWARD_MODEL: reward_model_figures,
    **{recipe: partial(learning_figures, _prefix(recipe)) for recipe in LEARNING},
}
