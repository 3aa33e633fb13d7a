"""Weights that are no numbers, which must not take the place of good ones on disk."""

import torch
from transformers import PreTrainedModel

from earl_trainer.types import NonFiniteWeightsError


def check_finite(name: str, model: PreTrainedModel) -> None:
    """Refuse a model with a parameter that is NaN or infinite.

    Args:
        name: What to call the model.
        model: Whose parameters are looked at, one after the other.

    Raises:
        NonFiniteWeightsError: Naming the first such parameter.
    """
    for parameter_name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            raise NonFiniteWeightsError(
                f"weights of the {name} are not finite ({parameter_name}): no checkpoint was "
                "written; the latest one is from before"
            )
