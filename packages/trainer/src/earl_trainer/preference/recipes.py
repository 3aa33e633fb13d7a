"""Runs that learn from data after warm-up, on a CPU in minutes."""

from earl_trainer.config import ModelConfig, RolloutConfig, RunConfig, SelectorConfig
from earl_trainer.learner.config import LearnerConfig, WarmupConfig
from earl_trainer.preference.config import PreferenceConfig


def _offline(
    recipe: str,
    preference: PreferenceConfig,
    *,
    num_steps: int,
    lr: float,
    group_size: int = 16,
    num_episodes: int = 128,
    num_minibatches: int = 2,
    num_epochs: int = 1,
) -> RunConfig:
    """A small model from scratch, as of `tictactoe-tiny`, which then learns from games as data."""
    return RunConfig(
        recipe=recipe,
        model=ModelConfig(num_layers=2),
        warmup=WarmupConfig(num_steps=150, num_episodes=64),
        preference=preference,
        rollout=RolloutConfig(num_episodes=num_episodes, group_size=group_size),
        learner=LearnerConfig(
            num_steps=num_steps, lr=lr, num_minibatches=num_minibatches, num_epochs=num_epochs
        ),
        selector=SelectorConfig(profile="none"),
    )


OFFLINE_RECIPES: tuple[RunConfig, ...] = (
    # Imitation of a player who makes no mistake.
    _offline("tictactoe-sft", PreferenceConfig(name="sft"), num_steps=60, lr=1e-3, group_size=1),
    # Lines of the policy's own games that part at one position, the better against the worse.
    _offline("tictactoe-dpo", PreferenceConfig(name="dpo"), num_steps=30, lr=3e-4),
    _offline(
        "tictactoe-simpo",
        PreferenceConfig(name="simpo", beta=2.0, margin=1.0),
        num_steps=30,
        lr=3e-4,
    ),
    _offline("tictactoe-orpo", PreferenceConfig(name="orpo", beta=1.0), num_steps=30, lr=3e-4),
    # Games that were won against games that were lost, each by itself.
    _offline("tictactoe-kto", PreferenceConfig(name="kto"), num_steps=30, lr=3e-4),
    # Moves of a player who makes no mistake against the policy's own at the same position, in
    # iterates of ten updates each.
    _offline(
        "tictactoe-spin",
        PreferenceConfig(name="spin", iterate_steps=5),
        num_steps=30,
        lr=3e-4,
        group_size=1,
        num_episodes=64,
    ),
    # Imitation of those of its own games that it won.
    _offline("tictactoe-rft", PreferenceConfig(name="rft"), num_steps=40, lr=1e-3),
)
