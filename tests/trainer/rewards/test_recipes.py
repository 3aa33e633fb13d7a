"""The recipes with learned rewards, small enough to be run through."""

import json
from dataclasses import replace

import pytest
import torch
from earl_trainer.assemble import assemble_run
from earl_trainer.loop import train
from earl_trainer.recipes import RECIPES
from earl_trainer.rewards.model import load_reward_model
from earl_trainer.rewards.recipes import REWARD_RECIPES


def small(recipe, *, rl_steps):
    config = RECIPES[recipe]
    return replace(
        config,
        model=replace(config.model, hidden_size=32, num_layers=1, reference_dtype="int8"),
        warmup=replace(config.warmup, num_steps=20, num_episodes=32, lr_warmup_steps=2),
        rollout=replace(config.rollout, num_episodes=16, group_size=8),
        reward=replace(config.reward, model_dtype="int8"),
        reward_model=replace(config.reward_model, num_steps=2, num_episodes=32),
        learner=replace(config.learner, num_steps=rl_steps),
        evaluation=replace(config.evaluation, num_games=4),
        tracking=replace(config.tracking, wandb="disabled", checkpoint_every_steps=23),
    )


def rows_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_they_begin_with_a_reward_model():
    assert all(config.reward_model.num_steps > 0 for config in REWARD_RECIPES)


@pytest.mark.slow
def test_the_whole_of_rlhf_is_one_run(tmp_path):
    config = small("tictactoe-rlhf", rl_steps=2)
    run = assemble_run(config, tmp_path / "whole", resume=False)
    train(run)
    run.finish()
    rows = rows_of(tmp_path / "whole")
    phases = [row["phase"] for row in rows]
    assert phases == ["warmup"] * 20 + ["reward-model"] * 2 + ["rl"] * 2
    assert rows[20]["policy/accuracy"] == 0.5
    policies = [row["policy/grad_norm"] for row in rows[22:]]
    assert all(norm > 0 for norm in policies)
    # Nothing but the model's opinion is a reward.
    for row in rows[22:]:
        assert row["reward/mean"] == pytest.approx(row["reward/mean_models"], abs=1e-5)
        assert row["reward/dropped_episodes"] == 0.0
    folder = tmp_path / "whole" / "reward-model"
    model = load_reward_model(folder, device=torch.device("cpu"))
    assert model.score.weight.abs().sum() > 0
    assert json.loads((tmp_path / "whole" / "summary.json").read_text())["steps"] == 24
