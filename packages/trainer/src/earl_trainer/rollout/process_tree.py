"""The processes that another library started, and the memory they hold."""

import subprocess
from collections.abc import Iterable
from typing import final

# Reads until this process closes the pipe, at the latest by dying.
_GUARD = 'cat > /dev/null; kill -9 "$@" 2> /dev/null'


@final
class ProcessTree:
    """Some processes and all that they have started by now; they do not outlive this process.

    Lifecycle: made, and ended by `end`.

    Args:
        pids: Of the roots.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        # It comes with the library whose processes these are.
        import psutil

        self._psutil = psutil
        self._processes: list[psutil.Process] = []
        for pid in pids:
            try:
                root = psutil.Process(pid)
                self._processes += [root, *root.children(recursive=True)]
            except psutil.NoSuchProcess:
                continue
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", *(str(each.pid) for each in self._processes)],
            stdin=subprocess.PIPE,
            # Ctrl-C is not meant for it.
            start_new_session=True,
        )

    @property
    def pids(self) -> list[int]:
        """Those that are left."""
        return [process.pid for process in self._processes if self._runs(process)]

    def held_bytes(self) -> int:
        """Return the memory of those that are left; what several map counts once.

        Linux's proportional set size. Source: man 5 proc, `smaps_rollup`.
        """
        return sum(self._held_bytes(process) for process in self._processes)

    def end(self, *, timeout_s: float | int) -> None:
        """Kill those that are left, and wait until they are gone or the time is over.

        Again is harmless.
        """
        for process in self._processes:
            if self._runs(process):
                process.kill()
        self._psutil.wait_procs(self._processes, timeout=timeout_s)
        # Without it the numbers could later be those of other processes.
        self._guard.kill()
        self._guard.wait(timeout=timeout_s)
        assert self._guard.stdin is not None
        self._guard.stdin.close()

    def _runs(self, process: object) -> bool:
        assert isinstance(process, self._psutil.Process)
        try:
            # A process that nobody has asked about its end holds no memory any more.
            return process.is_running() and process.status() != self._psutil.STATUS_ZOMBIE
        except self._psutil.NoSuchProcess:
            return False

    def _held_bytes(self, process: object) -> int:
        assert isinstance(process, self._psutil.Process)
        try:
            return int(process.memory_full_info().pss) if self._runs(process) else 0
        except self._psutil.NoSuchProcess:
            return 0
