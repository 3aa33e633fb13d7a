"""Several reward models as one."""

from collections.abc import Callable, Mapping

from jaxtyping import Float
from torch import Tensor

Ensemble = Callable[[Float[Tensor, "models episodes"], float], Float[Tensor, " episodes"]]
"""From what every model says, and a factor of doubt, to one reward of each episode."""


def mean(rewards: Float[Tensor, "models episodes"], doubt: float) -> Float[Tensor, " episodes"]:
    """Return the mean over the models; the factor is not used."""
    del doubt
    return rewards.mean(dim=0)


def worst_case(
    rewards: Float[Tensor, "models episodes"], doubt: float
) -> Float[Tensor, " episodes"]:
    """Return what the least convinced model says (Coste et al., arXiv:2310.02743, eq. 5).

    Args:
        rewards: [models, episodes].
        doubt: Not used.
    """
    del doubt
    return rewards.amin(dim=0)


def less_deviation(
    rewards: Float[Tensor, "models episodes"], doubt: float
) -> Float[Tensor, " episodes"]:
    """Return the mean less `doubt` standard deviations.

    Variants: Coste et al. (arXiv:2310.02743, eq. 6, uncertainty-weighted optimisation) take off the
    variance, which is in another unit than rewards. Here it is the standard deviation, biased, so
    that one model alone has none.

    Args:
        rewards: [models, episodes].
        doubt: k.
    """
    return rewards.mean(dim=0) - doubt * rewards.std(dim=0, correction=0)


ENSEMBLES: Mapping[str, Ensemble] = {
    "mean": mean,
    "min": worst_case,
    "mean-std": less_deviation,
}
"""By name."""
