"""Episodes' rewards against what they are compared with; the loop is the same for all baselines."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from earl_trainer.algorithms.normalisation import MIN_STD


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Rewards of a step's episodes, of all workers, and what they may be compared with."""

    rewards: Float[Tensor, " episodes"]
    groups: Int64[Tensor, " episodes"]
    """Identity of each episode's group: any integers in any order; groups may differ in size."""
    seats: Int64[Tensor, " episodes"]
    """The learner's seat."""
    greedy: Bool[Tensor, " episodes"]
    """Whether replies were decoded greedily: such an episode is a baseline and is not trained."""
    baselines: Float[Tensor, " seats"]
    """Running mean of rewards by seat, with these episodes."""


BaselineFunction = Callable[[Scores], Float[Tensor, " episodes"]]


def group_mean(scores: Scores) -> Float[Tensor, " episodes"]:
    """How much better an episode did than its group: A_i = r_i - mean(r_g).

    GRPO's numerator (DeepSeekMath, arXiv:2402.03300, section 4.1.2); the whole advantage of Dr.GRPO
    (arXiv:2503.20783). A single episode gets exactly 0; verl gives it its reward,
    which would make it the only one without a baseline.
    """
    return _group_moments(scores.rewards.double(), scores.groups)[0].float()


def leave_one_out(scores: Scores) -> Float[Tensor, " episodes"]:
    """How much better an episode did than the others of its group.

    A_i = r_i - mean_{j != i}(r_j) = n / (n - 1) (r_i - mean(r_g)) (RLOO, Ahmadian et al.,
    arXiv:2402.14740). A single episode, where n failed or were left out, gets exactly 0. TRL has
    the same of rewards that are already less the sum of their KL penalties.
    """
    centred, _, sizes = _group_moments(scores.rewards.double(), scores.groups)
    return (centred * sizes / (sizes - 1.0).clamp(min=1.0)).float()


def greedy_reply(scores: Scores) -> Float[Tensor, " episodes"]:
    """How much better an episode did than greedy decoding from the same start.

    A_i = r_i - r(greedy) (ReMax, Li et al., arXiv:2310.10505). Where the greedy episode
    of a group is missing, as it failed, the group gets 0: without a baseline there is no estimate.
    """
    _, index = scores.groups.unique(return_inverse=True)
    greedy = scores.greedy.double()
    zeros = torch.zeros(int(index.max()) + 1, dtype=torch.float64)
    counts = zeros.index_add(0, index, greedy)
    sums = zeros.index_add(0, index, greedy * scores.rewards.double())
    baselines = (sums / counts.clamp(min=1.0))[index]
    return torch.where(counts[index] > 0, scores.rewards - baselines, 0.0).float()


def running_mean(scores: Scores) -> Float[Tensor, " episodes"]:
    """How much better an episode did than its seat's running mean: A = r - b_seat.

    Role-conditioned advantage estimation (SPIRAL, Liu et al., arXiv:2506.24119); the mean is
    `update_baselines`.
    """
    return scores.rewards - scores.baselines[scores.seats]


def batch_mean(scores: Scores) -> Float[Tensor, " episodes"]:
    """How much better an episode did than all of the step: A_i = r_i - mean(r).

    REINFORCE with a baseline (Williams, 1992, section 4; Sutton and Barto, 2nd ed., eq. 13.11).
    """
    rewards = scores.rewards.double()
    return (rewards - rewards.mean()).float()


def reward_itself(scores: Scores) -> Float[Tensor, " episodes"]:
    """The reward, for algorithms that compare it with nothing, or with a critic later on."""
    return scores.rewards


def constant_one(scores: Scores) -> Float[Tensor, " episodes"]:
    """Weigh every episode alike whatever its reward, which makes maximum likelihood of REINFORCE.

    REINFORCE with A = 1 on demonstrations is the gradient of their log-likelihood (Williams, 1992).
    """
    return torch.ones_like(scores.rewards)


def update_baselines(
    baselines: Float[Tensor, " seats"], scores: Scores, *, decay: float
) -> Float[Tensor, " seats"]:
    """Move every seat's running mean towards the rewards of its episodes.

    b <- a^n b + (1 - a^n) mean(r) for n episodes of the seat. SPIRAL updates after each episode,
    b <- a b + (1 - a) r (arXiv:2506.24119), which is this for one, or for n of one reward;
    of several in a step its result depends on their order, this one's does not.

    Args:
        baselines: By seat, before the step; 0 before the first.
        scores: Of the step; its own `baselines` are not looked at.
        decay: a, per episode.
    """
    zeros = torch.zeros_like(baselines, dtype=torch.float64)
    counts = zeros.index_add(0, scores.seats, torch.ones_like(scores.rewards, dtype=torch.float64))
    means = zeros.index_add(0, scores.seats, scores.rewards.double()) / counts.clamp(min=1.0)
    kept = decay**counts
    return (kept * baselines + (1.0 - kept) * means).float()


def divide_by_group_std(
    advantages: Float[Tensor, " episodes"], scores: Scores
) -> Float[Tensor, " episodes"]:
    """Divide by the standard deviation of the rewards of each episode's group.

    The denominator of GRPO (DeepSeekMath, arXiv:2402.03300, section 4.1.2): the biased std, in two
    passes. TRL and verl take the unbiased one and add 1e-4 or 1e-6 to it. With the biased one the
    advantages of a group have the mean square 1 whatever its size. Deviation from all:
    groups whose std is below 1e-3, single episodes among them, get exactly 0 instead of a division
    by almost nothing.
    """
    _, std, _ = _group_moments(scores.rewards.double(), scores.groups)
    return torch.where(std >= MIN_STD, advantages / std.clamp(min=MIN_STD), 0.0).float()


def _group_moments(
    rewards: Float[Tensor, " episodes"], groups: Int64[Tensor, " episodes"]
) -> tuple[Float[Tensor, " episodes"], Float[Tensor, " episodes"], Float[Tensor, " episodes"]]:
    """Distance from the group's mean, the group's std and its size."""
    _, index = groups.unique(return_inverse=True)
    sizes = torch.bincount(index).double()
    centred = rewards - (torch.zeros_like(sizes).index_add(0, index, rewards) / sizes)[index]
    variance = torch.zeros_like(sizes).index_add(0, index, centred.square()) / sizes
    return centred, variance.sqrt()[index], sizes[index]
