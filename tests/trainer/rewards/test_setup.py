"""From a config to a judge."""

import copy
from pathlib import Path
from types import MappingProxyType

import pytest
from earl_trainer.config import RunConfig
from earl_trainer.rewards.config import JudgeConfig, RewardConfig
from earl_trainer.rewards.model import make_reward_model
from earl_trainer.rewards.own_model import OwnRewardModel
from earl_trainer.rewards.scored_collection import ScoredCollection
from earl_trainer.rewards.setup import (
    check_reward_functions,
    check_reward_models,
    make_judge,
    score_episodes,
)
from earl_trainer.types import RunFailedError


def test_without_functions_nothing_is_started():
    assert make_judge(RunConfig()) is None
    check_reward_functions(RewardConfig())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("odd_rewards:nothing", "reward.functions: odd_rewards:nothing: odd_rewards has no funct"),
        ("nowhere.at_all:any=3", "reward.functions: nowhere.at_all:any: there is no module 'nowh"),
    ],
)
def test_functions_that_are_not_there_are_refused_in_one_line(function, message):
    with pytest.raises(ValueError, match=r"^reward\.functions: ") as caught:
        check_reward_functions(RewardConfig(functions=("odd_rewards:length", function)))
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_the_judge_has_the_configs_functions_and_limits(make_episode):
    rewards = RewardConfig(
        functions=("odd_rewards:minus_tokens=0.25", "odd_rewards:sleep"),
        on_failure="zero",
        wall_s=0.5,
        num_processes=2,
    )
    check_reward_functions(rewards)
    judge = make_judge(RunConfig(reward=rewards))
    assert judge is not None
    try:
        episode = make_episode()  # Of one reply of two tokens without a text.
        judge.submit(episode)
        (judged,) = judge.collect([episode])
    finally:
        judge.close()
    assert judged.judgement is not None
    assert judged.judgement.bonus == -0.5
    assert "sleep: error: ValueError" in judged.judgement.detail


class Games:
    """Plays nothing: it is only handed on."""

    figures = MappingProxyType({})
    takes_starts = True

    def collect(self, request):
        raise AssertionError("nobody plays")

    def publish(self, model, version):
        pass

    def to_dict(self):
        return {}

    def close(self):
        pass


def scored(config, policy, tokenizer):
    own = OwnRewardModel((), policy, tokenizer, None)
    return score_episodes(
        config, Games(), own=own, policy=policy, decode=lambda ids: " ".join(map(str, ids))
    )


def test_without_models_or_a_judge_a_collection_stays_what_it_is(tiny_model, tiny_tokenizer):
    assert isinstance(scored(RunConfig(), tiny_model, tiny_tokenizer), Games)


def test_models_and_a_judge_are_laid_over_a_collection(tiny_model, tiny_tokenizer, tmp_path):
    make_reward_model(tiny_model).save_pretrained(tmp_path)
    for dtype in ("same", "int8"):
        rewards = RewardConfig(models=(f"{tmp_path}=2",), model_dtype=dtype)
        judge = JudgeConfig(url="http://127.0.0.1:9/v1", model="m")
        collection = scored(RunConfig(reward=rewards, judge=judge), tiny_model, tiny_tokenizer)
        assert isinstance(collection, ScoredCollection)
        assert [scorer.name for scorer in collection.scorers] == ["models", "judge"]
        collection.scorers[1].close()


def test_a_reward_model_of_other_tokens_ends_the_run_with_the_reason(
    tiny_model, tiny_tokenizer, make_llama, tmp_path
):
    make_reward_model(make_llama()).save_pretrained(tmp_path)
    rewards = RewardConfig(models=(str(tmp_path),))
    with pytest.raises(RunFailedError, match=r"its vocabulary must have \d+ of them, .* has 11"):
        scored(RunConfig(reward=rewards), tiny_model, tiny_tokenizer)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RunFailedError, match="cannot load the reward model"):
        scored(RunConfig(reward=rewards), tiny_model, tiny_tokenizer)


@pytest.fixture
def reward_folder(tiny_model, tiny_tokenizer, tmp_path):
    """A folder as runs leave them, with a tokenizer of choice."""

    def make(model=tiny_model, tokenizer=tiny_tokenizer):
        make_reward_model(model).save_pretrained(tmp_path / "reward-model")
        if tokenizer is not None:
            tokenizer.save_pretrained(tmp_path / "reward-model")
        return RewardConfig(models=(str(tmp_path / "reward-model"),))

    return make


def test_folders_of_reward_models_are_read_before_anything_is_trained(
    reward_folder, tiny_model, tiny_tokenizer, make_llama
):
    check_reward_models(RewardConfig(models=("own",)), tiny_model, tiny_tokenizer)
    with pytest.raises(ValueError, match=r"holds its tokenizer, .*reward-model' does not: "):
        check_reward_models(reward_folder(tokenizer=None), tiny_model, tiny_tokenizer)
    check_reward_models(reward_folder(), tiny_model, tiny_tokenizer)
    with pytest.raises(ValueError, match=r"its vocabulary must have \d+ of them, .* has 11"):
        check_reward_models(reward_folder(make_llama()), tiny_model, tiny_tokenizer)
    rules = reward_folder()
    (Path(rules.models[0]) / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="cannot load the reward model"):
        check_reward_models(rules, tiny_model, tiny_tokenizer)


def test_a_reward_model_with_as_many_other_words_is_refused(
    reward_folder, tiny_model, tiny_tokenizer
):
    words = copy.deepcopy(tiny_tokenizer)
    words.add_tokens(["first"])
    others = copy.deepcopy(tiny_tokenizer)
    others.add_tokens(["second"])
    with pytest.raises(ValueError, match=r"must name one with the same vocabulary, got '.*-m"):
        check_reward_models(reward_folder(tokenizer=others), tiny_model, words)


def test_a_run_with_an_unfit_reward_model_is_refused_before_its_warm_up(
    reward_folder, small_config, open_run, tmp_path, make_llama
):
    (folder,) = reward_folder(make_llama()).models
    config = small_config({"reward": {"models": [folder]}})
    with pytest.raises(ValueError, match="a reward model reads the tokens of the policy"):
        open_run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
