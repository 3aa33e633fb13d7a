"""The section of the configuration that makes rewards of episodes."""

from typing import Annotated, Literal

from annotated_types import Ge

from earl_trainer.config_fields import NonNegativeFloat, PositiveFloat, PositiveInt, section


@section
class RewardConfig:
    """From the outcome of an episode to its reward."""

    illegal_penalty: NonNegativeFloat = 0.5
    """Taken off the outcome (-1) of a forfeit, so that no move is worse than a lost game."""
    truncation: Literal["keep", "zero", "mask"] = "keep"
    """Episodes cut by a token limit: train with their reward, with reward 0, or not at all."""
    game_weight: NonNegativeFloat = 1.0
    """Of the outcome and its penalty, where functions add to them."""
    functions: tuple[str, ...] = ()
    """Your own, each `package.module:function=weight`, in processes of their own."""
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
