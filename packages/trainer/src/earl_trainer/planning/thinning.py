"""A large pipeline at a fraction of its size."""

from dataclasses import replace
from math import gcd
from typing import Final

from earl_trainer.planning.figures import PipelineFigures
from earl_trainer.planning.model import PipelineModel
from earl_trainer.planning.pipeline import simulate

_MIN_SEQUENCES: Final = 1000


def choose_divisor(model: PipelineModel) -> int:
    """Return by what batch and devices can be divided, a batch keeping a thousand sequences."""
    counts = (model.batch_groups, model.num_rollout_devices, model.num_training_devices)
    common = gcd(*counts)
    most = max(1, model.batch_groups * model.group_size // _MIN_SEQUENCES)
    return max(each for each in range(1, min(common, most) + 1) if common % each == 0)


def simulate_thinned(
    model: PipelineModel, eta: float | int, num_steps: int, seed: int
) -> PipelineFigures:
    """Simulate as `simulate` does, with batch and devices divided alike and rates multiplied.

    What a device carries and how long a step takes stay the same; sums over a batch scatter more.
    Counts of staleness are those of the small pipeline.

    Raises:
        ValueError: If eta or the number of steps means nothing.
    """
    divisor = choose_divisor(model)
    small = replace(
        model,
        batch_groups=model.batch_groups // divisor,
        num_rollout_devices=model.num_rollout_devices // divisor,
        num_training_devices=model.num_training_devices // divisor,
    )
    figures = simulate(small, eta, num_steps, seed)
    return replace(
        figures,
        trained_tokens_per_s=divisor * figures.trained_tokens_per_s,
        generated_tokens_per_s=divisor * figures.generated_tokens_per_s,
    )
