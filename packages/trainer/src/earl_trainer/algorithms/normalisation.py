"""Making advantages of one size over a whole step, whoever holds its tokens."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

MIN_STD = 1e-3
"""Numbers of a smaller spread are equal up to rounding, and dividing by it would blow rounding up
to advantages in the thousands."""


def whiten(
    values: Float[Tensor, " tokens"],
    add_up: Callable[[list[float]], list[float]],
) -> Float[Tensor, " tokens"]:
    """Take off the mean over all trained tokens of a step and divide by their std.

    (A - mean) / std (REINFORCE++, Hu et al., arXiv:2501.03262; PPO in Huang et al., "The 37
    Implementation Details of Proximal Policy Optimization", 2022, detail 7, there per mini-batch),
    with the biased std in two passes: the mean square is 1 whatever the number. verl adds 1e-8 to
    an unbiased variance; TRL's `normalize_advantages` adds 1e-4 to an unbiased std over episodes.
    Deviation from both: with a std below 1e-3 all get exactly 0.

    TRL's `scale_rewards="batch"` instead divides rewards less their group's mean by the std of the
    step's rewards; taking off the mean of tokens as well keeps long replies from weighing more.

    Args:
        values: At this worker's trained tokens.
        add_up: Sums numbers over all workers.
    """
    exact = values.double()
    count, total = add_up([float(len(exact)), float(exact.sum())])
    centred = exact - total / max(1.0, count)
    (squares,) = add_up([float(centred.square().sum())])
    std = (squares / max(1.0, count)) ** 0.5
    return (centred / std).float() if std >= MIN_STD else torch.zeros_like(values)
