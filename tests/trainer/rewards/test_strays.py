"""Processes that carry a mark are found and killed wherever they are, and no others."""

import os
import subprocess
import time

from earl_trainer.rewards.strays import MARK, kill_marked


def start(mark, *, session):
    return subprocess.Popen(
        ["sleep", "60"], env={**os.environ, MARK: mark}, start_new_session=session
    )


def test_whoever_carries_the_mark_is_killed_and_nobody_else():
    marked = [start("mine-1", session=True), start("mine-1", session=False)]
    other = start("mine-12", session=True)
    try:
        time.sleep(0.2)
        kill_marked("mine-1")
        assert [process.wait(5) for process in marked] == [-9, -9]
        assert other.poll() is None
    finally:
        for process in (*marked, other):
            process.kill()
            process.wait()


def test_nobody_to_kill_takes_no_time():
    start_s = time.monotonic()
    kill_marked("nobody")
    assert time.monotonic() - start_s < 0.5
