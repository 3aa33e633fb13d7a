"""Generation beside training on two cores, against taking turns, at several bounds of staleness.

A small model first learns to ramble: some of its replies have filler in front of the move, with a
long tail of lengths. From there every run makes the same number of updates of the same size by
reinforcement learning. `sync, one core` gives one core to whatever runs, as two devices that take
turns would, and plays with the engine of synchronous runs; `eta 0` takes turns too, on a core for
generation and a core for training, with the engine of asynchronous runs; `sync, both cores` lets
each phase use the whole machine. Runs that are ahead generate on one core and train on the other.
Throughput is of the tokens trained on, between the second update and the last; that of taking turns
is the better of the two ways. Gains are medians over seeds, whose runs are made one after another,
since a machine may be faster in one hour than in the next.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, final

import numpy as np
from async_curves import learning_curve, widest_gap
from bench_section import Row, Section
from benchmarking import Figure
from earl_envs import Failure
from earl_trainer.assemble import assemble_run
from earl_trainer.config import RolloutConfig, RunConfig, SelectorConfig, TrackingConfig
from earl_trainer.evaluation.config import EvaluationConfig
from earl_trainer.launch import run_to_end
from earl_trainer.learner.config import LearnerConfig, WarmupConfig
from earl_trainer.rollout.engine import NO_WEIGHTS, Completion
from earl_trainer.rollout.policies import Query, ReplyPolicy

EARL = Path(sys.executable).with_name("earl")
# A token that no board has, as between a thought and its move.
_FILLER = "<|unk|>"
# The others teach to play. With as many as these, generation takes about as long as training: a
# split of devices is chosen so that neither waits for the other.
_RAMBLING_SHARE = 0.4
_MEDIAN_FILLER_TOKENS, _SIGMA, _MAX_FILLER_TOKENS = 24.0, 0.9, 150
_ROLLOUT = RolloutConfig(
    num_episodes=96, group_size=8, max_reply_tokens=156, max_context_tokens=960
)
# No more at once than when turns are taken: new weights make whatever runs read its context anew.
_AT_ONCE = ("--asynchronous.max-running-groups", str(_ROLLOUT.num_episodes // _ROLLOUT.group_size))
_SELECTOR = SelectorConfig(profile="none")
_TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to train."""

    label: str
    flags: Sequence[str]
    num_threads: int = 1


def asynchronous(eta: int | None, correction: str, *more: str) -> Variant:
    """Train with generation ahead by at most `eta` updates, None for any number."""
    bound = ("--max-staleness", str(eta)) if eta is not None else ("--asynchronous.bound", "none")
    name = "inf" if eta is None else str(eta)
    return Variant(
        label=" ".join((f"eta {name}, {correction}", *more[1:2])),
        flags=(*bound, *_AT_ONCE, "--algorithm.correction", correction, *more),
    )


SYNC, BOTH = (
    Variant(label="sync, one core", flags=()),
    Variant(label="sync, both cores", flags=(), num_threads=2),
)
TURNS = Variant(label="eta 0", flags=("--asynchronous.always", "true"))
MAIN = asynchronous(2, "decoupled")
WAITING = replace(
    asynchronous(2, "decoupled", "--asynchronous.interrupt", "false"),
    label="eta 2, decoupled, replies not broken off",
)
TABLE = tuple(
    asynchronous(eta, correction)
    for correction in ("decoupled", "naive")
    for eta in (1, 2, 4, 8, None)
)


@final
class Rambling:
    """A script's replies, some with filler in front: as many tokens as a long-tailed draw says."""

    def __init__(self, script: ReplyPolicy, filler_id: int) -> None:
        self._script = script
        self._filler_id = filler_id

    def reply(self, queries: Sequence[Query]) -> list[Completion | Failure]:
        """Answer every query."""
        answers = self._script.reply(queries)
        return [self._ramble(*pair) for pair in zip(queries, answers, strict=True)]

    def _ramble(self, query: Query, answer: Completion | Failure) -> Completion | Failure:
        if isinstance(answer, Failure):
            return answer
        rng = np.random.default_rng([query.start.reply_seed, query.turn])
        drawn = 0.0
        if rng.random() < _RAMBLING_SHARE:
            drawn = rng.lognormal(np.log(_MEDIAN_FILLER_TOKENS), _SIGMA)
        room = query.max_new_tokens - len(answer.ids)
        filler = [self._filler_id] * max(0, min(int(drawn), _MAX_FILLER_TOKENS, room))
        return replace(
            answer,
            ids=[*filler, *answer.ids],
            logprobs=(0.0,) * (len(filler) + len(answer.ids)),
            versions=(NO_WEIGHTS,) * (len(filler) + len(answer.ids)),
        )


def teach_to_ramble(folder: Path, *, num_steps: int) -> Path:
    """Train a small model on scripted play with long-tailed replies; return its folder."""
    config = RunConfig(
        warmup=WarmupConfig(num_steps=num_steps, num_episodes=128),
        rollout=_ROLLOUT,
        learner=LearnerConfig(num_steps=0),
        selector=_SELECTOR,
        evaluation=EvaluationConfig(num_games=20),
        tracking=TrackingConfig(wandb="disabled"),
    )
    run = assemble_run(config, folder, resume=False)
    filler_id = run.tokenizer.get_vocab()[_FILLER]
    warmup, *rest = run.phases
    run.phases = (replace(warmup, policy=Rambling(warmup.policy, filler_id)), *rest)
    if run_to_end(run):
        raise SystemExit("the warm-up failed")
    return folder / "model"


def train(
    variant: Variant, model: Path, folder: Path, *, num_steps: int, num_games: int, seed: int
) -> Row:
    """Make one run and condense it."""
    words = [str(EARL), "train", "tictactoe-async", "--model.name", str(model)]
    words += ["--run-dir", str(folder), "--seed", str(seed), "--tracking.wandb", "disabled"]
    words += ["--warmup.num-steps", "0", "--learner.num-steps", str(num_steps)]
    words += ["--learner.lr", "3e-4", "--evaluation.num-games", str(num_games)]
    words += ["--max-staleness", "0"]
    for name in ("num_episodes", "group_size", "max_reply_tokens", "max_context_tokens"):
        words += [f"--rollout.{name.replace('_', '-')}", str(getattr(_ROLLOUT, name))]
    subprocess.run(
        [*words, *variant.flags],
        check=True,
        timeout=_TIMEOUT_S,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": str(variant.num_threads)},
    )
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    steps = [record for record in records if record.get("phase") == "rl"]
    summary = json.loads((folder / "summary.json").read_text())
    return {"variant": variant.label, "seed": seed, **condense(steps, summary)}


def condense(steps: Sequence[dict[str, Any]], summary: dict[str, Any]) -> dict[str, object]:
    """Return throughput, staleness and win rates of a run."""
    steady = steps[2:]
    seconds = sum(step["time/step_s"] for step in steady)
    # Every step passes its tokens once through the update.
    tokens = sum(step["rate/update_tokens_per_s"] * step["time/update_s"] for step in steady)
    after = summary["evaluation"]["after"]
    return {
        "tokens_per_s": tokens / seconds,
        "step_s": seconds / len(steady),
        "rollout_s": fmean(step["time/rollout_s"] for step in steady),
        "update_s": fmean(step["time/prepare_s"] + step["time/update_s"] for step in steady),
        "generation_idle_share": fmean(
            step.get("async/generation_idle_share", 0.0) for step in steady
        ),
        "staleness_mean": fmean(step["staleness/mean"] for step in steps),
        "staleness_max": max(step["staleness/max"] for step in steps),
        "context_max_tokens": max(step["context/max_tokens"] for step in steps),
        "win_rate_before": summary["evaluation"]["before"]["win_rate"],
        "win_rate": after["win_rate"],
        "win_rate_low": after["win_rate_low"],
        "win_rate_high": after["win_rate_high"],
        "games_per_step": _ROLLOUT.num_episodes,
        "win_rates_of_steps": [round(step["game/win_rate"], 4) for step in steps],
        "staleness_of_steps": [round(step["staleness/mean"], 3) for step in steps],
    }


def make_figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Compare the runs of each seed, and take the median of what comes of it."""

    def values(label: str, name: str) -> list[float]:
        return [float(str(row[name])) for row in rows if row["variant"] == label]

    def gain(*others: Variant) -> float:
        """Over the best of some others, each seed's runs beside one another."""
        rates = [values(other.label, "tokens_per_s") for other in others]
        best = [max(rates_of_seed) for rates_of_seed in zip(*rates, strict=True)]
        pairs = zip(values(MAIN.label, "tokens_per_s"), best, strict=True)
        return median(rate / other for rate, other in pairs)

    gaps = [
        max(low - high, other_low - other_high)
        for low, high, other_low, other_high in zip(
            values(SYNC.label, "win_rate_low"),
            values(MAIN.label, "win_rate_high"),
            values(MAIN.label, "win_rate_low"),
            values(SYNC.label, "win_rate_high"),
            strict=True,
        )
    ]
    curves = [learning_curve(rows, variant.label) for variant in (SYNC, MAIN)]
    return {
        "eta_2_over_sync": Figure(value=gain(SYNC, TURNS), unit="times", goal=">= 1.7"),
        "eta_2_over_sync_engine": Figure(value=gain(SYNC), unit="times", goal=""),
        "eta_2_over_eta_0": Figure(value=gain(TURNS), unit="times", goal=""),
        "eta_2_over_sync_on_both_cores": Figure(value=gain(BOTH), unit="times", goal=""),
        "gain_of_interruption": Figure(value=gain(WAITING), unit="times", goal="> 1"),
        "win_rate_gap_between_intervals": Figure(value=max(gaps), unit="", goal="<= 0"),
        "curve_gap_between_intervals": Figure(value=widest_gap(*curves), unit="", goal="<= 0"),
    }


def measure(quick: bool) -> Section:
    """Make all runs, those that are compared by throughput with three seeds."""
    rows: list[Row] = []
    num_steps, num_games = (4, 20) if quick else (30, 400)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = teach_to_ramble(folder / "warmup", num_steps=10 if quick else 400)
        compared = (SYNC, BOTH, TURNS, MAIN, WAITING)
        runs = [(each, seed) for seed in (range(1) if quick else range(3)) for each in compared]
        if not quick:
            runs += [(each, 0) for each in TABLE if each.label != MAIN.label]
        for number, (variant, seed) in enumerate(runs):
            row = train(
                variant, model, folder / str(number), num_steps=num_steps, num_games=num_games,
                seed=seed,
            )  # fmt: skip
            print({key: row[key] for key in ("variant", "tokens_per_s", "win_rate")}, flush=True)
            rows.append(row)
    return Section(figures=make_figures(rows), rows=rows)
