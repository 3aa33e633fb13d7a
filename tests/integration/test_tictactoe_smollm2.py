"""The pretrained recipe, one step of each phase: its own tokenizer and template, and bfloat16."""

import math
import shutil

import pytest
import torch
from earl_trainer.launch import run_to_end
from earl_trainer.overrides import resolve
from earl_trainer.recipes import find_recipe
from transformers import AutoModelForCausalLM, AutoTokenizer

BRIEF = {
    "warmup": {"num_steps": 1, "num_episodes": 4},
    "rollout": {"num_episodes": 4, "group_size": 2},
    "learner": {"num_steps": 1},
    "evaluation": {"num_games": 2},
    "tracking": {"wandb": "disabled"},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_model_folder_of_a_pretrained_model_is_what_was_trained(
    open_run, repeatable_rows, tmp_path
):
    run = open_run(resolve(find_recipe("tictactoe-smollm2"), BRIEF), tmp_path / "run")
    before = {name: weights.clone() for name, weights in run.model.state_dict().items()}
    template = run.tokenizer.chat_template

    assert run_to_end(run) == 0

    rows = repeatable_rows(run.folder)
    assert [row["phase"] for row in rows] == ["warmup", "rl"]
    assert all(math.isfinite(row["policy/loss"]) for row in rows)
    assert 0.9 < rows[1]["policy/ratio"] < 1.1
    trained = run.model.state_dict()
    assert all(weights.dtype == torch.bfloat16 for weights in trained.values())
    assert any(not torch.equal(weights, before[name]) for name, weights in trained.items())

    saved = AutoModelForCausalLM.from_pretrained(run.folder / "model").state_dict()
    assert saved.keys() == trained.keys()
    assert all(weights.dtype == torch.bfloat16 for weights in saved.values())
    assert all(torch.equal(weights, trained[name]) for name, weights in saved.items())
    assert "<|im_start|>" in template
    assert AutoTokenizer.from_pretrained(run.folder / "model").chat_template == template
    # Two gigabytes, which pytest would keep for three sessions.
    shutil.rmtree(run.folder)
