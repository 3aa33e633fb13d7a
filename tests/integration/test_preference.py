"""Every way to learn from data, in whole runs of a few steps."""

import json

import pytest
from earl_trainer.assemble import assemble_run
from earl_trainer.loop import train
from earl_trainer.overrides import parse_flags, resolve
from earl_trainer.preference.recipes import OFFLINE_RECIPES
from earl_trainer.recipes import find_recipe

TINY = (
    "--model.hidden-size 32 --model.num-layers 1 --warmup.num-steps 0 --rollout.num-episodes 16 "
    "--learner.num-steps 3 --learner.lr-warmup-steps 0 --learner.lr 0.02 "
    "--evaluation.num-games 2 --tracking.wandb disabled"
)


def run_steps(recipe, folder, flags=""):
    """Train a model of no experience; return the figures of its steps."""
    config = resolve(find_recipe(recipe), parse_flags(f"{TINY} {flags}".split()))
    run = assemble_run(config, folder, resume=False)
    run.begin()
    try:
        train(run)
        summary = run.finish()
    finally:
        run.tracker.close()
        run.engine.close()
    assert summary["steps"] == 3
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "phase" in row]


@pytest.fixture
def pairs(tmp_path):
    """One preference in two words, and the same as judged answers."""
    rows = [
        {"prompt": "O X", "chosen": "[1]", "rejected": "[9]"},
        {"prompt": "X O", "chosen": "[3]", "rejected": "[7]"},
    ]
    judged = [
        {"prompt": row["prompt"], "completion": row[side], "label": side == "chosen"}
        for row in rows
        for side in ("chosen", "rejected")
    ]
    for name, content in (("pairs", rows), ("judged", judged)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in content))
    return tmp_path


@pytest.mark.parametrize("name", ["dpo", "ipo", "simpo", "orpo", "kto"])
def test_the_margin_of_what_is_preferred_grows_on_data(pairs, name):
    recipe = "tictactoe-dpo" if name == "ipo" else f"tictactoe-{name}"
    data = pairs / ("judged.jsonl" if name == "kto" else "pairs.jsonl")
    rows = run_steps(
        recipe, pairs / "run", f"--preference {name} --preference.data {data}"
    )
    assert {row["phase"] for row in rows} == {"preference"}
    margins = [row["policy/margin"] for row in rows]
    assert margins[-1] > margins[0] + 0.01
    assert "game/win_rate" not in rows[0]


@pytest.mark.parametrize("config", OFFLINE_RECIPES, ids=lambda config: config.recipe)
def test_every_recipe_learns_from_games(tmp_path, config):
    # Without experience hardly a move is legal: what is wanted of games is lowered to that.
    threshold = "--preference.threshold -1.2" if config.preference.name in ("rft", "kto") else ""
    rows = run_steps(config.recipe, tmp_path / "run", threshold)
    assert rows[0]["policy/grad_norm"] > 0
    assert rows[0]["reward/mean"] <= 1
