"""The section of the configuration for matches."""

from earl_trainer.config_fields import AUTO, NonNegativeFloat, PositiveInt, section


@section
class EvaluationConfig:
    """Matches against an opponent: untrained, after warm-up, and at the end."""

    opponent: str = AUTO
    """`auto` is the run's `opponent`, or `random` where that is the learner itself."""
    num_games: PositiveInt = 400
    """Games of one match, equally many from each seat."""
    temperature: NonNegativeFloat = 1.0
    """Of the sampler; 0 takes the most likely token."""
