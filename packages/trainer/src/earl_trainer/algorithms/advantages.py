"""Advantages from the rewards of whole episodes."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

# Below this spread the rewards of a group are equal up to rounding, and dividing by it would blow
# rounding up to advantages in the thousands.
_MIN_STD = 1e-3

AdvantageFunction = Callable[
    [Float[Tensor, " episodes"], Int64[Tensor, " episodes"]], Float[Tensor, " episodes"]
]


def group_normalised(
    rewards: Float[Tensor, " episodes"], groups: Int64[Tensor, " episodes"]
) -> Float[Tensor, " episodes"]:
    """GRPO's advantage: how much better an episode did than its group, in standard deviations.

    A_i = (r_i - mean(r_g)) / std(r_g) over the group g of episode i (DeepSeekMath,
    arXiv:2402.03300, section 4.1.2), with the biased std in two passes. Deviation from the paper:
    groups whose std is below 1e-3, single episodes among them, get exactly 0 instead of a division
    by almost nothing.

    Args:
        rewards: [episodes].
        groups: [episodes] identity of each episode's group, any integers in any order; groups may
            differ in size.
    """
    centred, std = _group_moments(rewards.double(), groups)
    return torch.where(std >= _MIN_STD, centred / std.clamp(min=_MIN_STD), 0.0).float()


def constant_one(
    rewards: Float[Tensor, " episodes"], groups: Int64[Tensor, " episodes"]
) -> Float[Tensor, " episodes"]:
    """Weigh every episode alike whatever its reward, which makes maximum likelihood of REINFORCE.

    REINFORCE with A = 1 on demonstrations is the gradient of their log-likelihood (Williams, 1992).

    Args:
        rewards: [episodes], only for their shape.
        groups: [episodes], not used.
    """
    return torch.ones_like(rewards, dtype=torch.float32)


def _group_moments(
    rewards: Float[Tensor, " episodes"], groups: Int64[Tensor, " episodes"]
) -> tuple[Float[Tensor, " episodes"], Float[Tensor, " episodes"]]:
    _, index = groups.unique(return_inverse=True)
    sizes = torch.bincount(index).double()
    centred = rewards - (torch.zeros_like(sizes).index_add(0, index, rewards) / sizes)[index]
    variance = torch.zeros_like(sizes).index_add(0, index, centred.square()) / sizes
    return centred, variance.sqrt()[index]
