"""Statistics over the rows of all ranks, of which only sums travel."""

import torch
from jaxtyping import Float, Float32, Float64, Int64
from torch import Tensor
from torch.distributed import ProcessGroup

from earl_dispatch.link import Link

_MIN_STD = 1e-3


def group_advantages(
    rewards: Float[Tensor, "rows"],
    groups: Int64[Tensor, "rows"],
    *,
    num_groups: int,
    group: ProcessGroup | None = None,
    timeout_s: float = 300.0,
) -> Float32[Tensor, "rows"]:
    """Normalise rewards within groups of rows that lie on any ranks: GRPO's advantage.

    A_i = (r_i - mean(r_g)) / std(r_g) over the group g of row i (DeepSeekMath, arXiv:2402.03300,
    section 4.1.2), with the biased std; groups whose std is below 1e-3 get exactly 0. Count and sum
    of each group are added up over the ranks, then the squares of the differences to the mean: no
    other value, and no token, leaves its rank. Sums are float64.

    Args:
        rewards: Of this rank's rows. Each row is on one rank of `group`: of replicas only one
            takes part.
        groups: Number of each row's group, in range(num_groups).
        num_groups: Groups on all ranks together.
        group: Ranks that take part; the default group if None, or a process on its own.
        timeout_s: Longest time to wait for the others in each exchange.

    Raises:
        ValueError: On all ranks, if they differ in `num_groups` or one has a group outside the
            range, or not one per reward.
        RuntimeError: If a rank is gone or does not take part within `timeout_s`.
    """
    link = Link.open(group, timeout_s=timeout_s)
    fits = rewards.shape == groups.shape and bool(((groups >= 0) & (groups < num_groups)).all())
    _require_fit(num_groups, fits, link, rewards.device)
    values = rewards.double()
    count, total = link.sum(
        _sums(torch.stack([torch.ones_like(values), values]), groups, num_groups)
    )
    centred = values - (total / count)[groups]
    squares = link.sum(_sums(centred.square()[None], groups, num_groups))[0]
    std = (squares / count).sqrt()[groups]
    return torch.where(std >= _MIN_STD, centred / std.clamp(min=_MIN_STD), 0.0).float()


def _sums(
    values: Float64[Tensor, "kinds rows"], groups: Int64[Tensor, "rows"], num_groups: int
) -> Float64[Tensor, "kinds groups"]:
    return values.new_zeros(len(values), num_groups).index_add(1, groups, values)


def _require_fit(num_groups: int, fits: bool, link: Link, device: torch.device) -> None:
    mine = torch.tensor([num_groups, fits], dtype=torch.int64, device=device).view(torch.uint8)
    received = link.exchange([mine] * link.num_ranks, [len(mine)] * link.num_ranks)
    words = [part.clone().view(torch.int64).tolist() for part in received]
    others = [rank for rank, (number, _) in enumerate(words) if number != words[0][0]]
    if others:
        raise ValueError(
            f"ranks agree on num_groups: it is {words[0][0]} on rank 0 but {words[others[0]][0]} "
            f"on rank {others[0]}"
        )
    wrong = [rank for rank, (_, fitting) in enumerate(words) if not fitting]
    if wrong:
        raise ValueError(
            f"every reward needs a group in range({num_groups}), on rank {wrong[0]} not all have"
        )
