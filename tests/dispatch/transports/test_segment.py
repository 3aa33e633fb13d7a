import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from earl_dispatch.testing import run_ranks
from earl_dispatch.transports.segment import Segment, cut, cut_bytes
from hypothesis import given
from hypothesis import strategies as st

DTYPES = (torch.bool, torch.float16, torch.int32, torch.float64)


def files_of_this_process() -> list[str]:
    folder = Path("/proc/self/fd")
    return [os.readlink(folder / name) for name in os.listdir(folder) if (folder / name).exists()]


def write_to_the_other() -> list[int]:
    rank = dist.get_rank()
    with Segment.created(8) as own:
        mine = own.map()
        encoded: list[bytes] = [b""] * 2
        dist.all_gather_object(encoded, own.encode())
        Segment.decode(encoded[1 - rank]).map()[3] = 10 + rank
        dist.barrier()
    assert not [name for name in files_of_this_process() if own.token in name]
    return mine.tolist()


def test_what_one_process_writes_another_reads_also_after_the_context():
    assert run_ranks(2, write_to_the_other) == [
        [0, 0, 0, 11, 0, 0, 0, 0],
        [0, 0, 0, 10, 0, 0, 0, 0],
    ]


def test_memory_is_opened_only_by_who_means_this_one():
    with Segment.created(4) as segment:
        assert segment.map().tolist() == [0] * 4
        assert Segment.decode(segment.encode()) == segment
        with pytest.raises(FileNotFoundError, match="is not segment"):
            replace(segment, token="0" * 32).map()
        with pytest.raises(OSError, match="No such file"):
            replace(segment, descriptor=99_999).map()
    with pytest.raises(OSError, match=r"No such file|is not segment"):
        segment.map()


def test_it_has_no_name_in_a_file_system_and_goes_away_with_its_maps():
    with Segment.created(1 << 12) as segment:
        memory = segment.map()
        assert not list(Path("/dev/shm").glob("*earl*"))
    assert segment.token in Path("/proc/self/maps").read_text()
    del memory
    assert segment.token not in Path("/proc/self/maps").read_text()


def test_no_bytes_are_memory_too():
    with Segment.created(0) as segment:
        assert cut(segment.map(), [(torch.int32, 0)])[0].tolist() == []


@given(sizes=st.lists(st.tuples(st.sampled_from(DTYPES), st.integers(0, 40)), max_size=6))
def test_parts_of_memory_do_not_overlap_and_are_aligned(sizes):
    memory = torch.zeros(max(1, cut_bytes(sizes)), dtype=torch.uint8)
    parts = cut(memory, sizes)
    for number, (part, (dtype, size)) in enumerate(zip(parts, sizes, strict=True), start=1):
        assert (part.dtype, len(part)) == (dtype, size)
        assert part.storage_offset() * dtype.itemsize % 64 == 0
        part.view(torch.uint8).fill_(number)
    for number, part in enumerate(parts, start=1):
        assert part.view(torch.uint8).eq(number).all()
