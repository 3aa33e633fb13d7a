"""What the phase that learns a reward model learns from."""

import json
from dataclasses import replace

import pytest
from earl_trainer.config import RunConfig
from earl_trainer.recipes import RECIPES
from earl_trainer.rewards.config import RewardModelConfig
from earl_trainer.rewards.learning import check_pairs, labelling, make_objective


def test_pairs_are_labelled_by_the_game_even_if_it_counts_nothing_later():
    config = RECIPES["tictactoe-rlhf"]
    assert config.reward.game_weight == 0.0
    labels = labelling(replace(config, reward_model=RewardModelConfig(num_steps=1, data="pairs")))
    assert labels.reward == replace(config.reward, game_weight=1.0)
    assert labels.preference.data == "pairs"


def test_the_objective_has_the_configs_constants():
    objective = make_objective(RewardModelConfig(margin=0.5, centring=0.25))
    assert (objective.margin, objective.centring) == (0.5, 0.25)


def test_pairs_of_a_file_are_read_before_the_run_starts(tiny_chat, tmp_path):
    check_pairs(RunConfig(), tiny_chat)
    path = tmp_path / "pairs.jsonl"
    config = RunConfig(reward_model=RewardModelConfig(num_steps=1, data=str(path)))
    path.write_text(json.dumps({"prompt": "board", "chosen": "[1]", "rejected": "[2]"}) + "\n")
    check_pairs(config, tiny_chat)
    path.write_text(json.dumps({"prompt": "board", "chosen": "[1]"}) + "\n")
    with pytest.raises(ValueError, match=r"pairs\.jsonl"):
        check_pairs(config, tiny_chat)
