"""Rewards of replies that leave the best policy what it is."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from earl_trainer.rewards.transcript import Transcript


def potential_based(
    potential: Callable[[Transcript], Sequence[float]], *, gamma: float = 1.0
) -> Callable[[Transcript], list[float]]:
    """Make a function that rewards each reply by how it changed a potential.

    F_k = gamma Phi(s_{k+1}) - Phi(s_k), with s_k what the k-th reply faces and Phi = 0 behind the
    last one, however the episode ended (Ng, Harada and Russell, "Policy Invariance under Reward
    Transformations", ICML 1999, theorem 1 and its corollary). The discounted sum over an episode is
    -Phi(s_1): no policy gains by it, for any potential of what a reply faces and any weight.

    Args:
        potential: From an episode to Phi(s_k) of each of its replies.
        gamma: The discount per reply, which is the run's if its steps are turns; with a discount of
            1 they are the same.

    Returns:
        A reward function of a number for each reply.

    Example:
        >>> progress = potential_based(squares_held)  # --reward.functions my_rewards:progress=0.2
    """

    def changes(transcript: Transcript) -> list[float]:
        phi = [*potential(transcript), 0.0]
        return [gamma * after - before for before, after in pairwise(phi)]

    return changes
