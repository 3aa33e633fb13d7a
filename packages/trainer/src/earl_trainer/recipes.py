"""RECIPES: named runs."""

from earl_envs import suggest

from earl_trainer.config import (
    AlgorithmConfig,
    LearnerConfig,
    ModelConfig,
    RolloutConfig,
    RunConfig,
    SelectorConfig,
    TrackingConfig,
    WarmupConfig,
)

DEFAULT_RECIPE = "tictactoe-tiny"

RECIPES: dict[str, RunConfig] = {
    config.recipe: config
    for config in (
        RunConfig(recipe=DEFAULT_RECIPE),
        RunConfig(
            recipe="tictactoe-smollm2",
            model=ModelConfig(name="smollm2-135m-instruct", dtype="bfloat16"),
            warmup=WarmupConfig(num_steps=20, num_episodes=32, lr=1e-4, lr_warmup_steps=2),
            rollout=RolloutConfig(
                num_episodes=64, group_size=8, max_reply_tokens=8, max_context_tokens=512
            ),
            algorithm=AlgorithmConfig(),
            learner=LearnerConfig(num_steps=35, lr=2e-5, max_microbatch_tokens=1536),
            selector=SelectorConfig(memory_bytes=4 * 1024**3),
            tracking=TrackingConfig(checkpoint_every_steps=20, keep_checkpoints=1),
        ),
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
