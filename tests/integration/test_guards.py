"""A run that goes wrong is stopped, or sent back and mended."""

import json

import pytest
import torch
from earl_trainer.evaluation.checkup import CheckupHistory
from earl_trainer.guards.hacking import CHECKUP_SCORE, CHECKUP_STEP
from earl_trainer.launch import run_to_end

SHORT = {
    # Enough for a reply to end with its move now and then.
    "warmup": {"num_steps": 6, "lr": 1e-2},
    "learner": {"num_steps": 3},
    "evaluation": {"num_games": 4},
    "tracking": {"checkpoint_every_steps": 1},
}
FIRST, END = 6, 9


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text())


def seeds_of(folder, step):
    lines = (folder / "episodes.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["phase"] == "rl" and row["step"] == step]
    return {game["seed"] for row in rows for game in row["games"]}


def test_a_run_whose_weights_were_spoilt_goes_on_from_the_checkpoint_before(
    tmp_path, small_config, open_run, silent_display, repeatable_rows
):
    spoilt = []

    def spoil(step, stage):
        if (step, stage) == (4, "prepare") and not spoilt:
            spoilt.append(step)
            with torch.no_grad():
                next(run.model.parameters()).fill_(float("nan"))

    config = small_config(SHORT, {"warmup": {"num_steps": 2}, "guards": {"gradient": "roll-back"}})
    display = silent_display(spoil)
    run = open_run(config, tmp_path / "run", display=display)
    planned = run.phases[1]
    assert run_to_end(run) == 0

    rows = repeatable_rows(tmp_path / "run")
    assert spoilt
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4]
    # The weights that the bad step was made with are under suspicion as well.
    assert [row.get("guard/rollbacks") for row in rows] == [None, None, 0.0, 1.0, 1.0]
    assert [row["policy/skipped_updates"] for row in rows] == [0.0] * 5
    rates = [row["policy/lr"] / planned.lr(row["step"]) for row in rows[2:]]
    assert rates == pytest.approx([1.0, 0.5, 0.5])
    same_games = [
        seeds_of(tmp_path / "run", step)
        == {start.game_seed for start in planned.starts(config.seed, step, num_seats=2)}
        for step in (2, 3, 4)
    ]
    assert same_games == [True, False, False]
    found = summary_of(tmp_path / "run")["guards"]
    (rollback,) = found["rollbacks"]
    assert (rollback["from_step"], rollback["to_step"], rollback["guard"]) == (5, 3, "gradient")
    assert found["stopped_by"] is None
    assert any(note.startswith("roll-back: guard gradient") for note in display.notes)


def test_a_reward_that_does_not_rise_ends_the_run_as_if_all_steps_were_made(
    tmp_path, small_config, open_run, repeatable_rows
):
    guards = {"plateau": "stop", "plateau_steps": 1, "plateau_gain": 9.0, "max_update_kl": 1e-9}
    config = small_config(SHORT, {"guards": guards})
    assert run_to_end(open_run(config, tmp_path / "run")) == 0

    rows = repeatable_rows(tmp_path / "run")
    assert [row["step"] for row in rows] == list(range(FIRST + 2))
    assert [row.get("guard/plateau") for row in rows[FIRST - 1 :]] == [None, 0.0, 1.0]
    # At the first of two mini-batches the policy is still the old one.
    assert rows[-1]["guard/left_out_updates"] == 1.0
    summary = summary_of(tmp_path / "run")
    assert summary["guards"]["stopped_by"].startswith("guard plateau: mean reward")
    assert summary["steps"] == FIRST + 2
    assert summary["evaluation"]["after"]["games"] == 4

    # Without the guard it goes on to its end.
    config = small_config(SHORT, {"guards": {"plateau": "off", "max_update_kl": 0.0}})
    assert run_to_end(open_run(config, tmp_path / "run", resume=True)) == 0
    assert [row["step"] for row in repeatable_rows(tmp_path / "run")] == list(range(END))


RISING = """
from itertools import count

numbers = count()


def number(transcript):
    return float(next(numbers))
"""


def test_every_guard_finds_in_a_run_what_it_is_for(
    tmp_path, monkeypatch, small_config, open_run, silent_display, repeatable_rows
):
    (tmp_path / "rising.py").write_text(RISING)
    monkeypatch.syspath_prepend(tmp_path)

    def disturb(step, stage):
        if step >= FIRST and stage == "rollout":
            # Checkups of ever weaker weights, while every episode is rewarded better.
            figures = {CHECKUP_STEP: float(step), CHECKUP_SCORE: 0.9 - 0.1 * (step - FIRST)}
            run.state.checkups = CheckupHistory(latest=figures)
        if (step, stage) == (FIRST + 3, "prepare"):
            rng = torch.Generator().manual_seed(0)
            with torch.no_grad():
                for parameter in run.model.parameters():
                    parameter += 0.3 * torch.randn(parameter.shape, generator=rng)

    guards = {
        "kl": "warn",
        "kl_limit": 0.5,
        "kl_steps": 1,
        "entropy": "warn",
        "entropy_floor": 50.0,
        "entropy_steps": 2,
        "loss_spike_deviations": 5.0,
        "loss_spike_steps": 2,
        "hacking": "stop",
        "hacking_drop": 0.35,
        "hacking_checkups": 5,
    }
    config = small_config(
        SHORT,
        {
            "learner": {"num_steps": 7, "max_grad_norm": 0.0},
            "algorithm": {"kl_coefficient": 1.0},
            "reward": {"functions": ["rising:number=0.01"]},
            "evaluation": {"every_steps": 100, "checkup_games": 2},
            "guards": guards,
        },
    )
    display = silent_display(disturb)
    run = open_run(config, tmp_path / "run", display=display)
    assert run_to_end(run) == 0

    rows = [row for row in repeatable_rows(tmp_path / "run") if row["phase"] == "rl"]
    # Score down by 0.4 from the first of five checkups to the last: the run ends there.
    assert [row["step"] for row in rows] == list(range(FIRST, FIRST + 5))
    assert [row["guard/hacking"] for row in rows] == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert summary_of(tmp_path / "run")["guards"]["stopped_by"].startswith("guard hacking: mean r")
    assert [row["guard/entropy"] for row in rows] == [0.0, 1.0, 1.0, 1.0, 1.0]
    # Weights that were shaken are far from the reference, which is a term of the loss.
    assert [row["guard/kl"] for row in rows] == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert [row["guard/loss_spike"] for row in rows[:4]] == [0.0, 0.0, 0.0, 1.0]
    for name in ("hacking", "entropy", "kl", "loss_spike"):
        assert sum(f"guard {name}: " in note for note in display.notes) >= 1, name
    # Nothing clips where no norm is given.
    assert {row["guard/clipped_updates"] for row in rows} == {0.0}
    assert all(row["policy/grad_norm"] > 0.0 for row in rows)
