"""What members of a group say to one another."""

import torch
import torch.distributed as dist
from earl_dispatch.testing import run_ranks
from earl_trainer.workers.group import ALONE, Group


def talk(group):
    total = torch.tensor([1.0 + group.rank, 10.0])
    group.add_up(total)
    copied = torch.full((2,), float(group.rank))
    group.copy_from_first(copied)
    said = {"rank": group.rank}
    return (
        group.all_gather(said),
        group.gather(said),
        group.from_first(lambda: said),
        total.tolist(),
        copied.tolist(),
    )


def talk_on_every_rank():
    rank = dist.get_rank()
    return talk(Group(rank=rank, size=dist.get_world_size(), process_group=dist.group.WORLD))


def test_members_hear_of_one_another():
    everyone = [{"rank": rank} for rank in range(3)]
    for rank, (all_gathered, gathered, first, total, copied) in enumerate(
        run_ranks(3, talk_on_every_rank)
    ):
        assert all_gathered == everyone
        assert gathered == (everyone if rank == 0 else [{"rank": rank}])
        assert first == {"rank": 0}
        assert total == [6.0, 30.0]
        assert copied == [0.0, 0.0]


def test_one_process_alone_hears_itself():
    assert talk(ALONE) == ([{"rank": 0}], [{"rank": 0}], {"rank": 0}, [1.0, 10.0], [0.0, 0.0])
