from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from earl_dispatch import Hosts, Layout, RowSizes, plan_transfer
from earl_dispatch.link import Link
from earl_dispatch.testing import assert_same_bits, chunk_of_columns, random_columns, run_ranks
from earl_dispatch.transports import shared_memory as module
from earl_dispatch.transports.shared_memory import shared_memory

LENGTHS = (3, 0, 5, 1, 4, 2)
SOURCE = Layout.contiguous(num_rows=6, num_ranks=3)
TARGET = Layout(owners=(0,) * 6, groups=((1, 2, 0),), num_chunks=3)


def send() -> list[str]:
    batch = random_columns(LENGTHS, torch.Generator().manual_seed(3))
    hosts = Hosts.equal(num_ranks=3, ranks_per_host=3)
    plan = plan_transfer(SOURCE, TARGET, sizes=RowSizes.of_columns(batch), hosts=hosts)
    link = Link.open(None, timeout_s=20.0)
    received = shared_memory(plan, chunk_of_columns(batch, SOURCE, link.rank), link)
    assert_same_bits(received, chunk_of_columns(batch, TARGET, link.rank))
    return [path.name for path in Path("/dev/shm").glob("earl-*")]


def fail_to_open() -> str:
    if dist.get_rank() == 1:
        module._FOLDER = Path("/nowhere") if Path("/nowhere").exists() else Path("/tmp")
    with pytest.raises(ValueError, match="rank") as refused:
        send()
    return str(refused.value)


def test_ranks_read_one_anothers_memory_and_leave_none_behind():
    # A rank that is done may look before the last has given its memory back.
    run_ranks(3, send)
    assert not list(Path("/dev/shm").glob("earl-*"))


def test_ranks_that_share_no_memory_are_told_so_by_all():
    messages = run_ranks(3, fail_to_open)
    assert len(set(messages)) == 1
    assert "serves ranks of one host, but rank 0 cannot open" in messages[0]
