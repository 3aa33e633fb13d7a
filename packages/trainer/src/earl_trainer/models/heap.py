"""The heap of this process, which keeps what was freed."""

import ctypes
import os
from pathlib import Path
from typing import Final, final

_C_LIBRARY: Final = ctypes.CDLL(None)
_STATM: Final = Path("/proc/self/statm")
_SLACK_BYTES: Final = 512 * 1024**2


@final
class HeapTrimmer:
    """Gives freed pages of the heap back to the system, with glibc; without it does nothing.

    Passes over ever other rows leave holes that no later tensor fits, so that a process grows from
    step to step. A page that was given back costs a fault when it is used again, a third of the
    time of a small model's update: so it is done only when the process has grown by `slack_bytes`
    since. Source: man 3 malloc_trim.

    Example:
        >>> trimmer = HeapTrimmer()
        >>> trimmer.give_back()
    """

    def __init__(self, slack_bytes: int = _SLACK_BYTES) -> None:
        self._slack_bytes = slack_bytes
        self._floor_bytes = 0

    def give_back(self) -> None:
        """Give back what is free if the process has grown."""
        if not hasattr(_C_LIBRARY, "malloc_trim"):
            return
        if resident_bytes() > self._floor_bytes + self._slack_bytes:
            _C_LIBRARY.malloc_trim(0)
            self._floor_bytes = resident_bytes()


def resident_bytes() -> int:
    """Return the memory of this process, on Linux. Source: man 5 proc_pid_statm."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
