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


def small(recipe, *, rl_steps, data):
    """A run of seconds; the pairs are given, as a policy this new has no two games to compare."""
    config = RECIPES[recipe]
    return replace(
        config,
        model=replace(config.model, hidden_size=32, num_layers=1, reference_dtype="int8"),
        warmup=replace(config.warmup, num_steps=3, num_episodes=8, lr_warmup_steps=1),
        rollout=replace(config.rollout, num_episodes=16, group_size=8),
        reward=replace(config.reward, model_dtype="int8"),
        reward_model=replace(config.reward_model, num_steps=2, num_episodes=16, data=str(data)),
        learner=replace(config.learner, num_steps=rl_steps),
        evaluation=replace(config.evaluation, num_games=4),
        tracking=replace(config.tracking, wandb="disabled", checkpoint_every_steps=6),
    )


def rows_of(folder):
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [row for row in rows if "phase" in row]  # Not those of matches.


def test_they_begin_with_a_reward_model():
    assert all(config.reward_model.num_steps > 0 for config in REWARD_RECIPES)


def run_through(config, folder, *, resume=False):
    run = assemble_run(config, folder, resume=resume)
    train(run)
    summary = run.finish()
    run.tracker.close()
    return summary


@pytest.mark.slow
def test_the_whole_of_rlhf_is_one_run_and_goes_on_where_it_stood(tmp_path):
    data = tmp_path / "pairs.jsonl"
    pairs = [{"prompt": "1 2 3", "chosen": f"[{n}]", "rejected": f"[{n + 1}]"} for n in range(1, 8)]
    data.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    folder = tmp_path / "run"
    assert run_through(small("tictactoe-rlhf", rl_steps=1, data=data), folder)["steps"] == 6
    learned = load_reward_model(folder / "reward-model", device=torch.device("cpu"))
    assert learned.score.weight.abs().sum() > 0
    longer = small("tictactoe-rlhf", rl_steps=3, data=data)
    assert run_through(longer, folder, resume=True)["steps"] == 8
    rows = rows_of(folder)
    assert [row["phase"] for row in rows] == ["warmup"] * 3 + ["reward-model"] * 2 + ["rl"] * 3
    assert 0.0 < rows[4]["policy/accuracy"] <= 1.0
    # It is PPO: a critic learns what the model will say, and the divergence is in the reward.
    assert RECIPES["tictactoe-rlhf"].algorithm.name == "ppo"
    for row in rows[5:]:
        assert row["policy/value_loss"] > 0.0
        assert "advantage/reference_kl" in row
    # Nothing but the model's opinion is a reward.
    for row in rows[5:]:
        assert row["reward/mean"] == pytest.approx(row["reward/mean_models"], abs=1e-5)
        assert row["reward/mean"] != 0.0
        assert row["reward/dropped_episodes"] == 0.0
    kept = load_reward_model(folder / "reward-model", device=torch.device("cpu"))
    assert torch.equal(kept.score.weight, learned.score.weight)
