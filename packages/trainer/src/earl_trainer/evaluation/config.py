"""The section of the configuration for matches."""

from earl_trainer.config_fields import AUTO, NonNegativeFloat, NonNegativeInt, PositiveInt, section


@section
class EvaluationConfig:
    """Matches against an opponent: untrained, after warm-up, and at the end."""

    opponent: str = AUTO
    """`auto` is the run's `opponent`, or `random` where that is the learner itself."""
    num_games: PositiveInt = 400
    """Games of one match, equally many from each seat."""
    temperature: NonNegativeFloat = 1.0
    """Of the sampler; 0 takes the most likely token."""
    every_steps: NonNegativeInt = 0
    """Steps from one checkup of the weights to the next, besides these matches; 0 makes none."""
    opponents: tuple[str, ...] = ("random",)
    """Whom a checkup meets in a match each, such as `random,negamax:2,perfect`."""
    past_selves: NonNegativeInt = 0
    """And how many of the run's own weights, those of the latest checkups before."""
    optimum: bool = False
    """Count the moves that a solver would have played too, where the game can be solved."""
    checkup_games: PositiveInt = 100
    """Games of each match of a checkup."""
