"""RECIPES: named runs."""

from earl_envs import suggest

from earl_trainer.config import (
    ModelConfig,
    RolloutConfig,
    RunConfig,
    SelectorConfig,
    TrackingConfig,
)
from earl_trainer.evaluation.config import EvaluationConfig
from earl_trainer.learner.config import LearnerConfig, WarmupConfig
from earl_trainer.preference.recipes import OFFLINE_RECIPES
from earl_trainer.rewards.recipes import REWARD_RECIPES

DEFAULT_RECIPE = "tictactoe-tiny"

RECIPES: dict[str, RunConfig] = {
    config.recipe: config
    for config in (
        # A model from scratch: imitation of random legal play teaches the rules, GRPO to win.
        # Contexts grow because games are added: from one to two in the same context, against the
        # same opponent. One rank's memory holds the first of them, two ranks hold both.
        RunConfig(
            recipe=DEFAULT_RECIPE,
            warmup=WarmupConfig(num_steps=150),
            rollout=RolloutConfig(num_episodes=192, games_per_episode=2, games_ramp_steps=24),
            learner=LearnerConfig(num_steps=30, max_microbatch_tokens=4096),
            selector=SelectorConfig(
                tp_degrees=(1, 2),
                num_devices=2,
                deployment="single",
                memory_bytes=42_000_000,
                times="profile",
            ),
        ),
        # Connect Four on its usual board. A seat's turn takes 53 tokens, a game up to 21 turns and
        # about ten on average. Contexts grow from one game to two: one rank's memory holds the
        # first of all episodes at once, two ranks hold both.
        RunConfig(
            recipe="connectfour-tiny",
            env="earl/ConnectFour-v0",
            model=ModelConfig(num_layers=3, max_positions=2304),
            warmup=WarmupConfig(num_steps=160, num_episodes=96),
            rollout=RolloutConfig(
                num_episodes=96,
                group_size=8,
                max_context_tokens=2304,
                games_per_episode=2,
                games_ramp_steps=24,
            ),
            learner=LearnerConfig(num_steps=48),
            selector=SelectorConfig(
                tp_degrees=(1, 2),
                num_devices=2,
                deployment="single",
                memory_bytes=218_000_000,
                times="profile",
            ),
            # Untrained and at the end.
            evaluation=EvaluationConfig(
                every_steps=160 + 48, opponents=("random", "negamax:2", "negamax:4")
            ),
        ),
        # A pretrained chat model with a template and a tokenizer of its own.
        RunConfig(
            recipe="tictactoe-smollm2",
            model=ModelConfig(name="smollm2-135m-instruct", dtype="bfloat16"),
            warmup=WarmupConfig(num_steps=12, num_episodes=32, lr=1e-4, lr_warmup_steps=2),
            rollout=RolloutConfig(
                num_episodes=64, group_size=8, max_reply_tokens=8, max_context_tokens=512
            ),
            learner=LearnerConfig(num_steps=20, lr=4e-5, max_microbatch_tokens=1024),
            selector=SelectorConfig(memory_bytes=4 * 1024**3),
            tracking=TrackingConfig(checkpoint_every_steps=20, keep_checkpoints=1),
        ),
        # A run that a hard limit spoils, as EARL tells of Tic-Tac-Toe (arXiv:2510.05943). Contexts
        # grow because games are added, to be played in the same context: one to four over 36
        # steps. Every context gets 150 tokens of the memory, as many as two games take, so that
        # from the third on episodes are cut, and the games that they lack count as lost. Two ranks
        # hold all four: --selector.tp-degrees 1,2 --selector.num-devices 2 cuts nothing.
        RunConfig(
            recipe="tictactoe-collapse",
            model=ModelConfig(num_layers=2),
            warmup=WarmupConfig(num_steps=200, num_episodes=64),
            rollout=RolloutConfig(
                num_episodes=64,
                group_size=8,
                max_context_tokens=360,
                games_per_episode=4,
                games_ramp_steps=36,
                overflow="cut",
            ),
            learner=LearnerConfig(num_steps=48),
            selector=SelectorConfig(memory_bytes=21_400_000, deployment="single", profile="none"),
            evaluation=EvaluationConfig(num_games=200),
        ),
        # The small run with generation in a process of its own, up to two updates ahead.
        RunConfig(
            recipe="tictactoe-async",
            rollout=RolloutConfig(num_episodes=192),
            learner=LearnerConfig(num_steps=60),
            max_staleness=2,
            selector=SelectorConfig(profile="none"),
        ),
        *OFFLINE_RECIPES,
        *REWARD_RECIPES,
    )
}


def find_recipe(name: str) -> RunConfig:
    """Return a recipe.

    Raises:
        ValueError: If there is none of this name; names the nearest.
    """
    if name not in RECIPES:
        raise ValueError(suggest(name, list(RECIPES), what="recipe"))
    return RECIPES[name]
