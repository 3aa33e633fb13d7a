"""RECIPES: named runs."""

from earl_envs import suggest

from earl_trainer.config import (
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
        # A model from scratch: imitation of random legal play teaches the rules, GRPO to win.
        RunConfig(recipe=DEFAULT_RECIPE),
        # A pretrained chat model with a template and a tokenizer of its own.
        RunConfig(
            recipe="tictactoe-smollm2",
            model=ModelConfig(name="smollm2-135m-instruct", dtype="bfloat16"),
            warmup=WarmupConfig(num_steps=12, num_episodes=32, lr=1e-4, lr_warmup_steps=2),
            rollout=RolloutConfig(
                num_episodes=64, group_size=8, max_reply_tokens=8, max_context_tokens=512
            ),
            learner=LearnerConfig(num_steps=20, lr=4e-5, max_microbatch_tokens=1536),
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
