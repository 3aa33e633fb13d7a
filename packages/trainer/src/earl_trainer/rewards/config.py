"""The sections of the configuration that make rewards of episodes."""

from typing import Annotated, Literal

from annotated_types import Ge

from earl_trainer.config_fields import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    section,
)


@section
class RewardConfig:
    """From the outcome of an episode to its reward."""

    illegal_penalty: NonNegativeFloat = 0.5
    """Taken off the outcome (-1) of a forfeit, so that no move is worse than a lost game."""
    truncation: Literal["keep", "zero", "mask", "bootstrap"] = "keep"
    """Episodes cut by a token limit: train with their reward, with reward 0, not at all, or with
    what the critic expects of their rest."""
    game_weight: NonNegativeFloat = 1.0
    """Of the outcome and its penalty, where functions add to them."""
    functions: tuple[str, ...] = ()
    """Your own, each `package.module:function=weight`, in processes of their own; or, by its name
    alone, `exact_form`, `reply_tokens`, `optimal_moves`, `value_shaping`, `mathematics` or
    `unit_tests`. One returns a number for the episode, or one for each reply."""
    models: tuple[str, ...] = ()
    """Reward models, each `folder=weight`; `own` is the one that the run learns."""
    ensemble: Literal["mean", "min", "mean-std"] = "mean"
    """How several become one: their mean, the least, or the mean less `doubt` standard deviations.
    """
    doubt: NonNegativeFloat = 1.0
    """Of `mean-std`."""
    model_dtype: Literal["same", "int8"] = "same"
    """Precision of reward models: as they were written, or linear layers in 8 bits."""
    on_failure: Literal["drop", "zero"] = "drop"
    """An episode of which a function failed is not trained on, or the function counts 0."""
    num_processes: PositiveInt = 1
    """That compute functions, for every process that plays."""
    wall_s: PositiveFloat = 10.0
    """Longest time that a function may take for an episode."""
    cpu_s: PositiveInt = 10
    """The same, of the processor."""
    memory_bytes: Annotated[int, Ge(256 * 1024**2)] = 4 * 1024**3
    """Address space of a process that computes functions, and of each that it starts."""


@section
class RewardModelConfig:
    """A phase after warm-up that learns a reward model from pairs."""

    num_steps: NonNegativeInt = 0
    """Steps of the phase; 0 leaves it out."""
    num_episodes: PositiveInt = 128
    """Games of the policy in one step, paired by what the rules say; or pairs of `data`."""
    data: str = ""
    """A JSONL file, or a folder of JSONL or Parquet, with pairs; empty plays games."""
    lr: NonNegativeFloat = 1e-3
    """Peak learning rate."""
    lr_warmup_steps: NonNegativeInt = 2
    """Steps to the peak; a cosine to a tenth of it follows."""
    margin: NonNegativeFloat = 0.0
    """By how much the better side is to be ahead."""
    centring: NonNegativeFloat = 0.01
    """Weight of what keeps rewards around 0."""


@section
class JudgeConfig:
    """A language model behind an endpoint that marks episodes."""

    url: str = ""
    """Such as `http://host:8000/v1`, of any server that speaks OpenAI's protocol; empty for none.
    The key is the environment variable `OPENAI_API_KEY`."""
    model: str = ""
    """Its name there."""
    weight: NonNegativeFloat = 1.0
    """Of its marks, from 0 to 1."""
    template: str = ""
    """A text file with `{conversation}` in it that asks for a line `Score: N`, N from 0 to 10;
    empty for one that comes with the package."""
    timeout_s: PositiveFloat = 60.0
    """Longest time of one request; the episode then has no mark."""
    max_concurrent: PositiveInt = 16
    """Requests at once."""
