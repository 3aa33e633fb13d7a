"""Three speeds of a pipeline from three measured throughputs."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Final

from earl_trainer.planning.model import PipelineModel
from earl_trainer.planning.thinning import simulate_thinned

FITTED_ETAS: Final[tuple[float | int, ...]] = (0, 1, inf)
"""What the fit looks at; anything else is a prediction."""

_NUM_HALVINGS: Final = 10
_MAX_EXCESS: Final = 0.02


def fit_speeds(
    model: PipelineModel,
    tokens_per_s: Mapping[float | int, float],
    *,
    num_steps: int,
    seed: int,
) -> PipelineModel:
    """Fit `training_s_per_token`, `decode_s` and `decode_s_per_sequence`, one for each eta.

    - Unbounded, training never waits: a step takes T + P, so that the batch's tokens and the
      measured rate give T.
    - At eta = 0 a step takes W + T + P. All sequences begin together, and while n(k) of a device's
      sequences reach token k, that token takes d + d' n(k). Summed over k, W is the longest
      sequence times d plus all tokens of a device times d'. How much of W is due to d' is open.
    - At eta = 1 about twice as many sequences are in flight, and the larger that part is, the
      slower they are. The part is what the measured rate asks for, found by bisection, but no
      larger than lets generation, with all slots in use, keep up with training.

    Args:
        model: Everything else. Its slots hold a batch, and some sequence of nearly every batch has
            the maximum length.
        tokens_per_s: Measured throughput at eta = 0, 1 and inf; others are not looked at.
        num_steps: Of each simulation.
        seed: Of each simulation.

    Raises:
        ValueError: If no speeds give the measured throughputs.
    """
    synchronous_s, _, unbounded_s = (model.batch_tokens / tokens_per_s[eta] for eta in FITTED_ETAS)
    generation_s, training_s = synchronous_s - unbounded_s, unbounded_s - model.publication_s
    device_tokens = model.batch_tokens / model.num_rollout_devices

    def with_part(part: float) -> PipelineModel:
        return replace(
            model,
            training_s_per_token=training_s * model.num_training_devices / model.batch_tokens,
            decode_s=(1 - part) * generation_s / model.lengths.max_tokens,
            decode_s_per_sequence=part * generation_s / device_tokens,
        )

    def excess(part: float) -> float:
        figures = simulate_thinned(with_part(part), FITTED_ETAS[1], num_steps, seed)
        return figures.trained_tokens_per_s / tokens_per_s[FITTED_ETAS[1]] - 1

    # The largest part with slots / (d + d' slots) tokens/s >= those of a device over T.
    per_slot = model.slots_per_device / device_tokens
    per_token = 1 / model.lengths.max_tokens
    high = (per_slot * training_s - per_token * generation_s) / (per_slot - per_token)
    low, high = 0.0, high / generation_s
    if high <= low or excess(low) < 0 or excess(high) > _MAX_EXCESS:
        rates = ", ".join(f"{tokens_per_s[eta]:g} at {eta:g}" for eta in FITTED_ETAS)
        raise ValueError(f"no speeds give these tokens/s by eta with these lengths: {rates}")
    if excess(high) > 0:
        return with_part(high)
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) >= 0 else (low, middle)
    return with_part((low + high) / 2)
