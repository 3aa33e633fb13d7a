"""The processes that another library started, and the memory they hold."""

import subprocess
from collections.abc import Iterable
from contextlib import suppress
from typing import final

# Reads until this process closes the pipe, at the latest by dying.
_GUARD = 'cat > /dev/null; kill -9 "$@" 2> /dev/null'
_GUARD_TIMEOUT_S = 10.0


@final
class ProcessTree:
    """Some processes and all that they have started by now; they do not outlive this process.

    Lifecycle: made, then `watch` while there may be more of them, and ended by `end`.

    Args:
        pids: Of the roots.
    """

    def __init__(self, pids: Iterable[int] = ()) -> None:
        # It comes with the library whose processes these are.
        import psutil

        self._psutil = psutil
        self._processes: dict[int, psutil.Process] = {}
        self._guard: subprocess.Popen[bytes] | None = None
        self.watch(pids)

    @property
    def pids(self) -> list[int]:
        """Those that are left."""
        return [process.pid for process in self._processes.values() if self._runs(process)]

    def watch(self, pids: Iterable[int] = ()) -> None:
        """Take in further roots, and what has been started below all of them since."""
        roots = list(self._processes.values())
        for pid in pids:
            with suppress(self._psutil.NoSuchProcess):
                roots.append(self._psutil.Process(pid))
        num_before = len(self._processes)
        for root in roots:
            with suppress(self._psutil.NoSuchProcess):
                for each in (root, *root.children(recursive=True)):
                    self._processes.setdefault(each.pid, each)
        if len(self._processes) > num_before:
            self._start_guard()

    def held_bytes(self) -> int:
        """Return the memory of those that are left; what several map counts once.

        Linux's proportional set size. Source: man 5 proc, `smaps_rollup`.
        """
        return sum(self._held_bytes(process) for process in self._processes.values())

    def end(self, *, timeout_s: float | int) -> None:
        """Kill those that are left, and wait until they are gone or the time is over.

        Again is harmless.
        """
        processes = list(self._processes.values())
        for process in processes:
            if self._runs(process):
                process.kill()
        self._psutil.wait_procs(processes, timeout=timeout_s)
        # Without it the numbers could later be those of other processes.
        guard, self._guard = self._guard, None
        _end(guard)

    def _start_guard(self) -> None:
        old = self._guard
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", *map(str, self._processes)],
            stdin=subprocess.PIPE,
            # Ctrl-C is not meant for it.
            start_new_session=True,
        )
        _end(old)

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


def _end(guard: subprocess.Popen[bytes] | None) -> None:
    if guard is not None:
        # First, as it kills whom it guards once its pipe is closed.
        guard.kill()
        guard.wait(timeout=_GUARD_TIMEOUT_S)
        assert guard.stdin is not None
        guard.stdin.close()
