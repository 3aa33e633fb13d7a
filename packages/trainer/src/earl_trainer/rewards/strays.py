"""Finding every process that a reward process has started, wherever it may have gone."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

MARK = "EARL_REWARD_PROCESS"
"""Environment variable that a reward process hands on to whatever it starts."""
_ROUNDS = 200
_ROUND_S = 0.01
_CALM_ROUNDS = 3
"""Looks in a row that find nobody: one who starts a child while one looks may be missed once."""


def kill_marked(mark: str) -> None:
    """Kill whoever carries a mark, other than this process, until nobody is left, or 2 s long.

    A child inherits the variable whether or not it left its session or its parent; who clears its
    environment is not found.
    """
    entry = f"{MARK}={mark}".encode()
    num_calm = 0
    for _ in range(_ROUNDS):
        found = [pid for pid in _pids() if _kill_if_marked(pid, entry)]
        num_calm = 0 if found else num_calm + 1
        if num_calm == _CALM_ROUNDS:
            return
        time.sleep(_ROUND_S)


def _pids() -> list[int]:
    own = os.getpid()
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [pid for pid in pids if pid != own]


def _kill_if_marked(pid: int, entry: bytes) -> bool:
    """Kill a process if it carries the mark; return whether it did."""
    # Processes end while one reads; others belong to somebody else.
    with suppress(OSError):
        if entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            group = os.getpgid(pid)
            # At once with whatever it starts in this moment.
            if group != os.getpgrp():
                os.killpg(group, signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
            return True
    return False
