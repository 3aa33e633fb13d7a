"""Every way to learn from data, in whole runs of a few steps."""

import json

import pytest
from earl_trainer.launch import run_to_end
from earl_trainer.overrides import parse_flags, resolve
from earl_trainer.preference.recipes import OFFLINE_RECIPES
from earl_trainer.recipes import find_recipe

TINY = (
    "--model.hidden-size 32 --model.num-layers 1 --warmup.num-steps 0 --rollout.num-episodes 16 "
    "--learner.num-steps 3 --learner.lr-warmup-steps 0 --learner.lr 0.02 "
    "--evaluation.num-games 2 --tracking.wandb disabled"
)


@pytest.fixture
def run_steps(open_run, tmp_path):
    """Train a model of no experience by a recipe; return the figures of its steps."""

    def run(recipe, flags=""):
        config = resolve(find_recipe(recipe), parse_flags(f"{TINY} {flags}".split()))
        assert run_to_end(open_run(config, tmp_path / "run")) == 0
        lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
        rows = [row for row in map(json.loads, lines) if "phase" in row]
        assert [row["phase"] for row in rows] == ["preference"] * 3
        return rows

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
    margins = [row["policy/margin"] for row in rows]
    assert margins[-1] > margins[0] + 0.01
    assert "game/win_rate" not in rows[0]


@pytest.mark.parametrize("config", OFFLINE_RECIPES, ids=lambda config: config.recipe)
def test_every_recipe_learns_from_games(run_steps, config):
    # Without experience hardly a move is legal: what counts as good is lowered to that.
    lowered = config.preference.name in ("rft", "kto")
    rows = run_steps(config.recipe, "--preference.threshold -1.6" if lowered else "")
    assert all(row["policy/grad_norm"] > 0 for row in rows)
    assert all("game/win_rate" in row for row in rows)
