"""Rewards that do not fit are refused in one line."""

from dataclasses import replace

import pytest
from earl_trainer.config import RunConfig
from earl_trainer.recipes import RECIPES
from earl_trainer.rewards.check import check_rewards
from earl_trainer.rewards.config import JudgeConfig, RewardConfig

RLHF = RECIPES["tictactoe-rlhf"]


def changed(section, **fields):
    return replace(RLHF, **{section: replace(getattr(RLHF, section), **fields)})


def test_recipes_with_learned_rewards_are_fit():
    check_rewards(RLHF)
    check_rewards(RECIPES["reward-model"])
    check_rewards(RunConfig())


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        (RunConfig(reward=RewardConfig(game_weight=0.0)), "something must be rewarded"),
        (changed("reward", models=("own=0",)), "something must be rewarded"),
        (changed("reward", models=("nowhere",)), "folder with a config.json, got 'nowhere'"),
        (changed("reward_model", num_steps=0), "reward_model.num_steps must be >= 1, got 0"),
        (changed("reward_model", num_episodes=100), "multiple of rollout.group_size, got 100 and"),
        (changed("rollout", group_size=1), "rollout.group_size must be >= 2, got 1"),
        (changed("learner", max_microbatch_tokens=300), "at least twice rollout.max_context_tok"),
        (changed("selector", prepare_on="ranks"), "needs selector.prepare_on learner"),
        (RunConfig(judge=JudgeConfig(url="host:80", model="m")), "judge.url must be an address"),
        (RunConfig(judge=JudgeConfig(url="http://a/v1")), "needs the name of a model"),
        (
            RunConfig(judge=JudgeConfig(url="http://a/v1", model="m", template="no/file")),
            "judge.template must be a text file",
        ),
        (
            RunConfig(judge=JudgeConfig(model="m")),
            "nothing judges: judge.model must be '', got 'm'",
        ),
        (
            RunConfig(judge=JudgeConfig(template="no/file")),
            "nothing judges: judge.template must",
        ),
        (
            RunConfig(judge=JudgeConfig(weight=0.5)),
            "nothing judges: judge.weight must be 1.0",
        ),
        (
            RunConfig(reward=RewardConfig(ensemble="min")),
            "there are no reward.models: reward.ensemble must be 'mean', got 'min'",
        ),
        (
            RunConfig(reward=RewardConfig(model_dtype="int8")),
            "no reward.models: reward.model_dtype",
        ),
        (
            RunConfig(reward=RewardConfig(doubt=2.0)),
            "no reward.models: reward.doubt must be 1.0",
        ),
        (changed("reward", doubt=2.0), "reward.ensemble mean doubts nothing: reward.doubt must be"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_rule(config, rule):
    with pytest.raises(ValueError, match=rule) as caught:
        check_rewards(config)
    assert "\n" not in str(caught.value)


def test_ranks_hold_no_reference_in_8_bits():
    config = RunConfig(model=replace(RunConfig().model, reference_dtype="int8"))
    check_rewards(config)
    ranks = replace(config, selector=replace(config.selector, prepare_on="ranks"))
    with pytest.raises(ValueError, match=r"model\.reference_dtype must be same"):
        check_rewards(ranks)


def test_a_template_says_where_the_conversation_goes(tmp_path):
    path = tmp_path / "template.txt"
    path.write_text("How good?")
    judge = JudgeConfig(url="http://a/v1", model="m", template=str(path))
    with pytest.raises(ValueError, match=r"with \{conversation\} in it"):
        check_rewards(RunConfig(judge=judge))
    path.write_text("How good is {conversation}?")
    check_rewards(RunConfig(judge=judge))
