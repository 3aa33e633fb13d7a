import pytest
from earl_trainer.algorithms.config import AdvantageConfig, AlgorithmConfig
from earl_trainer.algorithms.kl import k1, k2
from earl_trainer.algorithms.off_policy import CORRECTIONS
from earl_trainer.algorithms.settings import AdvantageSettings, advantage_settings, loss_settings
from earl_trainer.algorithms.table import ALGORITHMS


def of_loss(name, **fields):
    return loss_settings(
        AlgorithmConfig(**fields),
        ALGORITHMS[name],
        correction=CORRECTIONS["none"],
        kl_coefficient=fields.get("kl_coefficient", 0.0),
    )


def of_advantages(name, *, kl_coefficient=0.0, rules=None, **fields):
    return advantage_settings(
        AlgorithmConfig(**fields),
        rules or AdvantageConfig(),
        ALGORITHMS[name],
        kl_coefficient=kl_coefficient,
        max_tokens=100,
        bootstraps=False,
    )


def test_what_the_run_leaves_open_is_the_algorithms_own():
    assert (of_loss("gspo").clip_low, of_loss("gspo").clip_high) == (3e-4, 4e-4)
    assert of_loss("dapo").clip_high == 0.28
    assert of_loss("ppo").dual_clip == 3.0
    assert of_advantages("dapo").shaping.overlong_share == 0.2
    assert of_advantages("ppo").normalisation == "batch"


def test_what_the_run_says_holds_for_every_algorithm():
    loss = of_loss("ppo", clip_low=0.1, dual_clip=0.0)
    assert (loss.clip_low, loss.dual_clip) == (0.1, 0.0)
    rules = AdvantageConfig(overlong_share=0.0, normalisation="none")
    settings = of_advantages("dapo", rules=rules)
    assert (settings.shaping.overlong_share, settings.normalisation) == (0.0, "none")


@pytest.mark.parametrize(
    ("place", "in_loss", "in_reward"), [("loss", 0.1, 0.0), ("reward", 0.0, 0.1)]
)
def test_the_divergence_counts_in_one_place(place, in_loss, in_reward):
    assert of_loss("grpo", kl_coefficient=0.1, kl_in=place).kl_coefficient == in_loss
    penalty = of_advantages("grpo", kl_coefficient=0.1, kl_in=place).penalty
    assert penalty.coefficient == in_reward


def test_the_estimator_is_the_one_that_fits_the_place_unless_named():
    assert of_loss("grpo").kl_estimator == "k3"
    assert of_loss("grpo", kl_estimator="k2").kl_estimator == "k2"
    assert of_advantages("grpo").penalty.estimate is k1
    assert of_advantages("grpo", kl_estimator="k2").penalty.estimate is k2


def test_imitation_takes_nothing_of_what_is_said_of_rewards():
    rules = AdvantageConfig(normalisation="batch", discount=0.5, reward_scale=3.0)
    assert of_advantages("sft", rules=rules, kl_in="reward") == AdvantageSettings()
    assert of_loss("sft", entropy_coefficient=0.1).entropy_coefficient == 0.0
