"""Every way to learn from data, in whole runs of a few steps."""

import json
import math

import pytest
from earl_trainer.launch import run_to_end
from earl_trainer.overrides import parse_flags, resolve
from earl_trainer.recipes import find_recipe

TINY = (
    "--model.hidden-size 32 --model.num-layers 1 --warmup.num-steps 0 --rollout.num-episodes 16 "
    "--learner.num-steps 3 --learner.lr-warmup-steps 0 --learner.lr 0.02 "
    "--evaluation.num-games 2 --tracking.wandb disabled"
)
# Without any experience no move is legal, and one game is like another.
EXPERIENCE = "--warmup.num-steps 20 --warmup.num-episodes 16 --warmup.lr-warmup-steps 0"


@pytest.fixture
def run_steps(open_run, tmp_path):
    """Train a model of no experience by a recipe; return the figures of its steps."""

    def run(recipe, flags=""):
        config = resolve(find_recipe(recipe), parse_flags(f"{TINY} {flags}".split()))
        assert run_to_end(open_run(config, tmp_path / "run")) == 0
        lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
        rows = [row for row in map(json.loads, lines) if "phase" in row]
        return [row for row in rows if row["phase"] == "preference"]

    return run


@pytest.fixture
def data(tmp_path):
    """Two preferences, and the same as judged answers."""
    pairs = [
        {"prompt": "O X", "chosen": "[1]", "rejected": "[9]"},
        {"prompt": "X O", "chosen": "[3]", "rejected": "[7]"},
    ]
    judged = [
        {"prompt": pair["prompt"], "completion": pair[side], "label": side == "chosen"}
        for pair in pairs
        for side in ("chosen", "rejected")
    ]
    for name, rows in (("pairs", pairs), ("judged", judged)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return tmp_path


@pytest.mark.parametrize("name", ["dpo", "ipo", "simpo", "orpo", "kto"])
def test_the_margin_of_what_is_preferred_grows_on_data(run_steps, data, name):
    recipe = "tictactoe-dpo" if name == "ipo" else f"tictactoe-{name}"
    path = data / ("judged.jsonl" if name == "kto" else "pairs.jsonl")
    rows = run_steps(recipe, f"--preference {name} --preference.data {path}")
    assert len(rows) == 3
    margins = [row["policy/margin"] for row in rows]
    assert margins[-1] > margins[0] + 0.01
    assert "game/win_rate" not in rows[0]


@pytest.mark.parametrize("name", ["dpo", "kto", "rft"])
def test_games_are_learned_from(run_steps, name):
    rows = run_steps(f"tictactoe-{name}", EXPERIENCE)
    assert len(rows) == 3
    # A step may bring nothing, which changes nothing.
    assert [row["policy/grad_norm"] > 0 for row in rows] == [
        row["preference/rows"] > 0 for row in rows
    ]
    assert any(row["preference/rows"] for row in rows)


SPIN = f"{EXPERIENCE} --learner.num-minibatches 1 --preference.iterate-steps 2"


def test_every_iterate_of_spin_begins_at_its_own_reference_and_leaves_it(run_steps):
    rows = run_steps("tictactoe-spin", f"{SPIN} --learner.num-steps 4")
    losses = [row["policy/loss"] for row in rows]
    assert losses[::2] == pytest.approx([math.log(2.0)] * 2, abs=1e-4)
    assert all(abs(loss - math.log(2.0)) > 1e-3 for loss in losses[1::2])
    assert all(row["policy/grad_norm"] > 0 for row in rows)


def test_an_iterate_of_spin_that_was_interrupted_keeps_its_reference(open_run, tmp_path):
    folder = tmp_path / "run"
    for num_steps, resume in ((3, False), (4, True)):
        flags = f"{TINY} {SPIN} --learner.num-steps {num_steps}"
        config = resolve(find_recipe("tictactoe-spin"), parse_flags(flags.split()))
        assert run_to_end(open_run(config, folder, resume=resume)) == 0
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    last = [row for row in map(json.loads, lines) if "phase" in row][-1]
    assert abs(last["policy/loss"] - math.log(2.0)) > 1e-3


def test_guards_watch_what_learns_from_games(run_steps):
    flags = "--guards.plateau stop --guards.plateau-steps 1 --guards.plateau-gain 10"
    rows = run_steps("tictactoe-rft", f"{EXPERIENCE} {flags}")
    # The second step's mean reward is less than 10 above that of the first.
    assert [row["guard/plateau"] for row in rows] == [0.0, 1.0]
