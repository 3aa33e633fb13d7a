"""Runs that learn what is good, and then do it."""

from earl_trainer.algorithms.config import AdvantageConfig, AlgorithmConfig, CriticConfig
from earl_trainer.config import ModelConfig, RolloutConfig, RunConfig, SelectorConfig
from earl_trainer.evaluation.config import EvaluationConfig
from earl_trainer.learner.config import LearnerConfig, WarmupConfig
from earl_trainer.rewards.config import RewardConfig, RewardModelConfig


def _learned(
    recipe: str,
    *,
    reward: RewardConfig,
    learner: LearnerConfig,
    algorithm: AlgorithmConfig | None = None,
    advantage: AdvantageConfig | None = None,
    critic: CriticConfig | None = None,
) -> RunConfig:
    """A small model from scratch: imitation, then a reward model from pairs of its own games."""
    return RunConfig(
        recipe=recipe,
        model=ModelConfig(num_layers=2),
        warmup=WarmupConfig(num_steps=200, num_episodes=96),
        rollout=RolloutConfig(num_episodes=128),
        reward_model=RewardModelConfig(num_steps=50, num_episodes=256),
        reward=reward,
        algorithm=algorithm or AlgorithmConfig(),
        advantage=advantage or AdvantageConfig(),
        critic=critic or CriticConfig(),
        learner=learner,
        selector=SelectorConfig(profile="none"),
        evaluation=EvaluationConfig(num_games=200),
    )


REWARD_RECIPES: tuple[RunConfig, ...] = (
    # The reward model alone, as a folder that other runs are rewarded by.
    _learned("reward-model", reward=RewardConfig(), learner=LearnerConfig(num_steps=0)),
    # InstructGPT's three steps (arXiv:2203.02155): imitation, a reward model, and PPO that sees
    # nothing but the model's rewards, less a divergence per token from what was imitated.
    _learned(
        "tictactoe-rlhf",
        reward=RewardConfig(game_weight=0.0, models=("own",)),
        algorithm=AlgorithmConfig(name="ppo", kl_in="reward", kl_coefficient=0.1),
        advantage=AdvantageConfig(trace_decay=0.95),
        # It begins without any expectation, and the model's rewards have a scale of their own: it
        # learns faster than the policy, and its errors pull however far a value has to move.
        critic=CriticConfig(lr_ratio=3.0, value_clip=0.0),
        # Few and small steps: with three times the rate and a fifth of the KL term the model's
        # rewards rise while games are lost.
        learner=LearnerConfig(num_steps=40, lr=3e-4),
    ),
)
