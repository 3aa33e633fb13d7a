import pytest
import torch
import torch.distributed as dist
from earl_dispatch.statistics import group_advantages
from earl_dispatch.testing import run_ranks

NUM_GROUPS = 6


def make_rows(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rewards, groups, and the rank of each row: group 4 has one row, group 5 has none."""
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randn(40, generator=generator) * 10 ** (seed % 5) + 1e4 * (seed % 3)
    groups = torch.randint(3, (40,), generator=generator)
    groups[7], groups[8:12] = 4, 3
    rewards[8:12] = 0.1
    return rewards, groups, torch.randint(3, (40,), generator=generator)


def central(rewards: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    advantages = torch.zeros(len(rewards), dtype=torch.float64)
    for group in groups.unique():
        members = rewards[groups == group].double()
        std = members.std(correction=0)
        if std >= 1e-3:
            advantages[groups == group] = (members - members.mean()) / std
    return advantages


def normalise_parts() -> list[torch.Tensor]:
    parts = []
    for seed in range(30):
        rewards, groups, ranks = make_rows(seed)
        mine = ranks == dist.get_rank() if seed else ranks < 0
        if not seed and dist.get_rank() == 2:
            mine = ranks >= 0
        parts.append(group_advantages(rewards[mine], groups[mine], num_groups=NUM_GROUPS))
    return parts


def normalise_wrongly() -> list[str]:
    rank = dist.get_rank()
    rewards, groups = torch.zeros(2), torch.tensor([0, 1])
    calls = [
        (rewards, groups, 2 + (rank == 1)),
        (rewards, groups + (rank == 2), 2),
        (rewards, groups[: 2 - (rank == 0)], 2),
    ]
    messages = []
    for mine, numbers, num_groups in calls:
        with pytest.raises(ValueError, match="rank") as refused:
            group_advantages(mine, numbers, num_groups=num_groups, timeout_s=20.0)
        messages.append(str(refused.value))
    return messages


def test_ranks_get_what_one_would_compute_from_all_rows():
    results = run_ranks(3, normalise_parts)
    for seed in range(30):
        rewards, groups, ranks = make_rows(seed)
        expected = central(rewards, groups)
        assert expected.abs().max() > 0.5
        for rank in range(3):
            mine = ranks == rank
            if not seed:
                mine = ranks >= 0 if rank == 2 else ranks < 0
            torch.testing.assert_close(
                results[rank][seed], expected[mine].float(), rtol=1e-6, atol=1e-7
            )


def test_one_process_needs_no_group():
    rewards, groups, _ = make_rows(1)
    alone = group_advantages(rewards, groups, num_groups=NUM_GROUPS)
    torch.testing.assert_close(alone, central(rewards, groups).float(), rtol=1e-6, atol=1e-7)
    assert alone[groups == 4].tolist() == [0.0]
    assert alone[groups == 3].tolist() == [0.0] * 4


def test_all_ranks_refuse_what_one_has_wrong():
    assert (
        run_ranks(3, normalise_wrongly)
        == [
            [
                "ranks agree on num_groups: it is 2 on rank 0 but 3 on rank 1",
                "every reward needs a group in range(2), on rank 2 not all have",
                "every reward needs a group in range(2), on rank 0 not all have",
            ]
        ]
        * 3
    )
