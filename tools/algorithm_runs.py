"""Runs of one algorithm each on Tic-Tac-Toe, of equal budgets and from the same warm-up."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench_recipes import EARL, run_watched
from earl_envs import EndReason

_COMMON = (
    "--model.hidden-size", "64",
    "--model.num-layers", "2",
    "--rollout.games-per-episode", "1",
    "--rollout.games-ramp-steps", "0",
    "--selector.num-devices", "1",
    "--selector.tp-degrees", "1",
    "--selector.memory-bytes", str(2**30),
    "--selector.profile", "none",
    "--selector.times", "run",
    "--tracking.wandb", "disabled",
)  # fmt: skip
_SEAT_NAMES = ("first", "second")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much each run may learn from, and how well it is then known."""

    warmup_steps: int = 300
    num_steps: int = 40
    num_episodes: int = 128
    group_size: int = 8
    num_games: int = 400

    def flags(self, *, trains: bool) -> list[str]:
        """Return the flags of a run that begins where a warm-up ended, or of that warm-up."""
        steps = {
            "warmup.num-steps": 0 if trains else self.warmup_steps,
            "learner.num-steps": self.num_steps if trains else 0,
            "rollout.num-episodes": self.num_episodes,
            "rollout.group-size": self.group_size,
            "evaluation.num-games": self.num_games,
        }
        return [text for name, value in steps.items() for text in (f"--{name}", str(value))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run of the table."""

    algorithm: str
    seed: int
    budget: Budget

    @property
    def key(self) -> dict[str, Any]:  # Any: plain values for JSON
        """What tells its row from others."""
        return {"algorithm": self.algorithm, "seed": self.seed, "budget": asdict(self.budget)}


Row = Mapping[str, Any]  # Any: parsed JSON


def warm_up(seed: int, budget: Budget, folder: Path) -> Path:
    """Make the model that all runs of a seed begin with, and return its folder."""
    run_dir = folder / f"warmup-{seed}"
    _earl_train(["--seed", str(seed), *budget.flags(trains=False)], run_dir)
    return run_dir / "model"


def run_plan(plan: Plan, model: Path, folder: Path) -> Row:
    """Train from a warm-up's model and return the row of it."""
    run_dir = folder / f"{plan.algorithm}-{plan.seed}"
    wall_s, peak_bytes = _earl_train(
        [
            *("--seed", str(plan.seed)),
            *("--model.name", str(model)),
            *("--algorithm.name", plan.algorithm),
            *plan.budget.flags(trains=True),
        ],
        run_dir,
    )
    evaluation = json.loads((run_dir / "summary.json").read_text())["evaluation"]
    steps = map(json.loads, (run_dir / "metrics.jsonl").read_text().splitlines())
    return {
        **plan.key,
        "wall_s": wall_s,
        "peak_bytes": peak_bytes,
        "evaluation": {name: evaluation[name] for name in ("before", "after")},
        "win_rates_of_steps": [step["game/win_rate"] for step in steps if "game/win_rate" in step],
    }


def run_long(label: str, flags: Sequence[str], folder: Path) -> Row:
    """Train for long and count draws against the solver, from each seat."""
    run_dir = folder / f"long-{label}"
    wall_s, peak_bytes = _earl_train(flags, run_dir)
    lines = map(json.loads, (run_dir / "episodes.jsonl").read_text().splitlines())
    match = [line for line in lines if line["phase"] == "evaluation-after"]
    return {
        "long": label,
        "flags": list(flags),
        "wall_s": wall_s,
        "peak_bytes": peak_bytes,
        **{name: draws_of(match, seat) for seat, name in enumerate(_SEAT_NAMES)},
    }


def draws_of(episodes: Sequence[Row], seat: int) -> dict[str, int]:
    """Count the games of a seat, and those that were played to a draw."""
    games = [game for each in episodes if each["seat"] == seat for game in each["games"]]
    drawn = [
        game
        for game in games
        if game["outcome"] == 0.0 and game["end_reason"] == EndReason.FINISHED
    ]
    return {"games": len(games), "draws": len(drawn)}


def _earl_train(flags: Sequence[str], run_dir: Path) -> tuple[float, int]:
    return run_watched(
        [EARL, "train", "tictactoe-tiny", "--run-dir", run_dir, *_COMMON, *flags],
        {**os.environ, "OMP_NUM_THREADS": "1"},
    )
