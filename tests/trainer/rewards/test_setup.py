"""From a config to a judge."""

import pytest
from earl_trainer.config import RunConfig
from earl_trainer.rewards.config import RewardConfig
from earl_trainer.rewards.setup import check_reward_functions, make_judge


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
