"""What processes of one host hold together."""

import mmap
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

MIB = 1 << 20


@pytest.fixture
def tool(load_tool):
    return load_tool("dispatch_memory")


def fill(num_bytes):
    # Pages of its own: an allocator may hand out what it kept of something freed before.
    block = mmap.mmap(-1, num_bytes)
    block[:: 1 << 12] = b"x" * (num_bytes >> 12)
    return block


def test_the_peak_is_seen_also_of_what_is_gone_in_the_end(tool):
    with tool.sampled_peak([os.getpid()]) as peak:
        block = fill(64 * MIB)
        time.sleep(0.2)
        block.close()
    assert 60 * MIB < peak.added_bytes < 80 * MIB


def test_a_peak_is_that_since_its_beginning(tool):
    with tool.sampled_peak([os.getpid()]) as first:
        kept = fill(64 * MIB)
    with tool.sampled_peak([os.getpid()]) as second:
        time.sleep(0.05)
    assert first.added_bytes > 60 * MIB
    assert second.added_bytes < 16 * MIB
    assert second.before_bytes > 60 * MIB
    kept.close()


KEEPING = """
import os, sys
sys.path.insert(0, sys.argv[1])
import dispatch_memory
if sys.argv[2] == "return":
    dispatch_memory.return_freed_memory()
# Freed, it teaches the C library to keep blocks of this size.
del [bytearray(30 << 20)][:]
blocks = [bytearray(1 << 20) for _ in range(64)]
before = dispatch_memory.held_bytes([os.getpid()])
del blocks[:-1]
print(before - dispatch_memory.held_bytes([os.getpid()]))
"""


def test_freed_memory_is_given_back_only_by_a_process_that_was_told_to(tool):
    given_back = {
        way: int(
            subprocess.run(
                [sys.executable, "-c", KEEPING, str(Path(tool.__file__).parent), way],
                check=True,
                capture_output=True,
                text=True,
                timeout=60,
            ).stdout
        )
        for way in ("keep", "return")
    }
    assert given_back["return"] > 60 * MIB
    assert given_back["keep"] < 60 * MIB


@pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="the kernel does not tell who shares"
)
def test_a_page_of_two_processes_counts_once(tool):
    memory = mmap.mmap(-1, 64 * MIB)
    here, there = multiprocessing.Pipe()
    started = os.getpid()
    child = os.fork()
    if not child:
        # Nothing of pytest may run in here.
        try:
            memory[:: 1 << 12] = b"x" * (len(memory) >> 12)
            there.send("written")
            time.sleep(30)
        finally:
            os._exit(0)
    try:
        assert here.poll(30)
        pids = [started, child]
        together, alone = tool.held_bytes(pids), tool.held_bytes(pids[:1])
        assert sum(memory[:: 1 << 12]) > 0
        assert abs(tool.held_bytes(pids) - together) < 8 * MIB
        # Each is charged with half.
        assert 24 * MIB < tool.held_bytes(pids[:1]) - alone < 40 * MIB
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_where_the_kernel_does_not_tell_every_process_counts(tool, monkeypatch):
    monkeypatch.setattr(tool.Path, "read_text", without_rollup(Path.read_text))
    one = tool.held_bytes([os.getpid()])
    assert one > 10 * MIB
    assert tool.held_bytes([os.getpid()] * 2) == pytest.approx(2 * one, rel=0.05)


def without_rollup(read_text):
    def read(path):
        if path.name == "smaps_rollup":
            raise FileNotFoundError(path)
        return read_text(path)

    return read
