"""How much memory processes of one host hold together, over time."""

import ctypes
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from resource import getpagesize
from typing import final

_INTERVAL_S = 0.001
# Of mallopt(3): blocks from this size on are mapped by themselves, and unmapped when freed.
_MMAP_THRESHOLD = -3
_MAPPED_FROM_BYTES = 1 << 15


def held_bytes(pids: Sequence[int]) -> int:
    """Return the memory that processes hold together.

    A page that several of them map counts once: Linux charges each of n processes that map it with
    1/n ("Pss" in proc(5)). Where the kernel does not tell, it counts once for every process, which
    is never less. Memory that is shared but mapped by none of them at the time is not counted.
    """
    return sum(map(_charged_bytes, pids))


def _charged_bytes(pid: int) -> int:
    folder = Path(f"/proc/{pid}")
    try:
        rollup = (folder / "smaps_rollup").read_text()
    except OSError:
        return int((folder / "statm").read_text().split()[1]) * getpagesize()
    kilobytes = [line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:")]
    return int(kilobytes[0]) * 1024


def return_freed_memory() -> None:
    """Let this process give back from now on what it frees, and what it has freed so far.

    The C library keeps freed memory for later by default, so that what is measured as added would
    depend on what the process did before. Without GNU's library nothing happens.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim"):
        libc.mallopt(_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
        libc.malloc_trim(0)


@final
class Peak:
    """The most memory that was seen."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self.before_bytes = self.most_bytes = held_bytes(pids)

    @property
    def added_bytes(self) -> int:
        """How much more it was than in the beginning."""
        return self.most_bytes - self.before_bytes

    def sample(self) -> None:
        """Look once."""
        self.most_bytes = max(self.most_bytes, held_bytes(self._pids))


@contextmanager
def sampled_peak(pids: Sequence[int]) -> Generator[Peak, None, None]:
    """Look at processes again and again, from a thread, and once more in the end.

    What comes and goes within about a millisecond is missed, and the processes are slowed down:
    what is measured in this way is not timed.
    """
    peak, done = Peak(pids), threading.Event()

    def watch() -> None:
        while not done.wait(_INTERVAL_S):
            peak.sample()

    thread = threading.Thread(target=watch, name="sampled_peak", daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
    peak.sample()
