"""The critic's loss."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueInputs:
    """What the critic says, said before the step's first update, and should say."""

    values: Float[Tensor, "*tokens"]
    """With gradient."""
    old_values: Float[Tensor, "*tokens"]
    returns: Float[Tensor, "*tokens"]


def clipped_value_loss(
    inputs: ValueInputs, *, clip: float
) -> tuple[Float[Tensor, "*tokens"], Float[Tensor, "*tokens"]]:
    """Squared error of a value that may move only so far within a step, and where it was clipped.

    L_t = max((V - R)^2, (clip(V, V_old - eps, V_old + eps) - R)^2) / 2: PPO's value loss as in its
    first implementation (Huang et al., "The 37 Implementation Details of Proximal Policy
    Optimization", 2022, detail 9). verl has this one, and so had TRL until it gave up PPO; torchrl
    leaves out the half, rlax the clip. With the half the gradient of an unclipped value is its
    error, as it is without a clip.

    Args:
        inputs: Per token.
        clip: eps; 0 for plain regression.
    """
    error = (inputs.values - inputs.returns).square()
    if not clip:
        return error / 2.0, torch.zeros_like(error)
    near = inputs.old_values + (inputs.values - inputs.old_values).clamp(-clip, clip)
    clipped = (near - inputs.returns).square()
    return torch.maximum(error, clipped) / 2.0, (clipped > error).float()
