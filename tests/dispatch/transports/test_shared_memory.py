import gc
import os
import signal
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from earl_dispatch import Columns, Hosts, Layout, RowSizes, plan_transfer
from earl_dispatch.execution import Execution
from earl_dispatch.link import Link
from earl_dispatch.testing import assert_same_bits, chunk_of_columns, random_columns, run_ranks
from earl_dispatch.transports import shared_memory as module
from earl_dispatch.transports.peer_memory import Peer
from earl_dispatch.transports.segment import Segment
from earl_dispatch.transports.shared_memory import shared_memory

LENGTHS = (3, 0, 5, 1, 4, 2)
SOURCE = Layout.contiguous(num_rows=6, num_ranks=3)
CHUNKED = Layout(owners=(0,) * 6, groups=((1, 2, 0),), num_chunks=3)
EVERYWHERE = Layout(owners=(0,) * 6, groups=((0, 1, 2),))


def send(target: Layout, *, hosts: Hosts | None = None) -> Columns:
    batch = random_columns(LENGTHS, torch.Generator().manual_seed(3))
    plan = plan_transfer(SOURCE, target, sizes=RowSizes.of_columns(batch), hosts=hosts)
    link = Link.open(None, timeout_s=5.0)
    received = shared_memory(plan, chunk_of_columns(batch, SOURCE, link.rank), link)
    assert_same_bits(received, chunk_of_columns(batch, target, link.rank))
    return received


def count_own_segments() -> int:
    """Return how many maps and open files of segments this process has."""
    gc.collect()
    folder = Path("/proc/self/fd")
    files = [os.readlink(folder / name) for name in os.listdir(folder) if (folder / name).exists()]
    maps = Path("/proc/self/maps").read_text().splitlines()
    return sum("memfd:earl-" in line for line in (*files, *maps))


def forbid_reading() -> None:
    """Let rank 1 read nobody's memory, as some systems do."""
    if dist.get_rank() == 1:
        Peer.can_be_read = lambda _: False


def send_in_several_ways(*, reading: bool) -> list[int]:
    if not reading:
        forbid_reading()
    one_host = Hosts.equal(num_ranks=3, ranks_per_host=3)
    # Two hosts: what the second lacks it gets once, and one rank passes it on to the other.
    two_hosts = Hosts(of=(0, 1, 1))
    counts: list[int] = []
    for target, hosts in ((CHUNKED, one_host), (EVERYWHERE, two_hosts), (EVERYWHERE, None)):
        received = send(target, hosts=hosts)
        counts.append(count_own_segments())
        del received
        counts.append(count_own_segments())
    return counts


def read_and_write() -> tuple[list[int], list[int]]:
    return send_in_several_ways(reading=True), send_in_several_ways(reading=False)


def write_to_the_result() -> None:
    forbid_reading()
    received = send(EVERYWHERE)
    before = received.per_token["token_torch.int32"].clone()
    dist.barrier()
    if dist.get_rank() == 1:
        received.per_token["token_torch.int32"].add_(1)
    dist.barrier()
    changed = not before.equal(received.per_token["token_torch.int32"])
    assert changed == (dist.get_rank() == 1)


def fail_to_open() -> str:
    forbid_reading()
    if dist.get_rank() == 1:

        def refuse(segment: Segment) -> torch.Tensor:
            raise PermissionError(segment.pid)

        Segment.map = refuse
    with pytest.raises(ValueError, match="rank") as refused:
        send(CHUNKED)
    return str(refused.value)


def fail_to_read() -> str:
    if dist.get_rank() == 1:

        def refuse(pid: int, runs: object) -> None:
            raise ProcessLookupError(pid)

        module.read_memory = refuse
    with pytest.raises(RuntimeError, match="rank") as refused:
        send(CHUNKED)
    return str(refused.value)


def lose_rank_1() -> tuple[str, int]:
    forbid_reading()
    if dist.get_rank() == 1:
        Execution.deliver = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    message = ""
    try:
        send(CHUNKED)
    except RuntimeError as error:
        message = str(error)
    return message, count_own_segments()


def test_columns_are_read_in_place_or_written_to_results_of_which_nothing_else_stays():
    # Written results are one map of the own, none of another's, no open file.
    assert run_ranks(3, read_and_write) == [([0] * 6, [1, 0] * 3)] * 3


def test_nobody_else_writes_to_a_result_that_has_been_handed_out():
    run_ranks(3, write_to_the_result)


def test_ranks_that_share_no_memory_are_told_so_by_all():
    messages = run_ranks(3, fail_to_open)
    assert len(set(messages)) == 1
    assert "serves processes of one host and user, but rank 1 cannot open" in messages[0]


def test_a_rank_that_can_read_no_longer_is_named_by_all():
    assert run_ranks(3, fail_to_read) == ["rank 1 cannot read the memory of others any more"] * 3


def test_a_killed_rank_leaves_no_memory_behind():
    before = set(Path("/dev/shm").iterdir())
    first, _, last = run_ranks(3, lose_rank_1, may_die=[1])
    for message, num_segments in (first, last):
        assert "no answer from rank 1;" in message
        assert num_segments == 0
    assert not [path for path in set(Path("/dev/shm").iterdir()) - before if "earl" in path.name]
