"""Starting a run's other workers on this machine, and seeing to it that none outlives the run."""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import final

import torch
import torch.distributed as dist

from earl_trainer.types import RunFailedError
from earl_trainer.workers.group import LostWorkerError
from earl_trainer.workers.team import Team

_ARRIVED = "arrived"
# Exit status of a worker that ends for the loss of another.
_LEFT_ALONE = 3
_LEAVE_TIMEOUT_S = 30.0
_POLL_S = 0.05


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Where the workers of one machine meet."""

    path: str
    """Of a file that none of them has written yet."""
    size: int
    timeout_s: float
    """Longest time that one exchange may wait for the slowest."""

    def join(self, team: Team, while_waiting: Callable[[], None] = lambda: None) -> None:
        """Arrive, wait for all others and connect.

        Args:
            team: This worker's.
            while_waiting: Called until all are there; what it raises ends the waiting.

        Raises:
            RunFailedError: If one does not arrive in time.
        """
        # Documented there, and missing from the module's list of names.
        store = dist.FileStore(self.path, self.size)  # pyright: ignore[reportPrivateImportUsage]
        store.add(_ARRIVED, 1)
        deadline_s = time.monotonic() + self.timeout_s
        while (num_arrived := store.add(_ARRIVED, 0)) < self.size:
            while_waiting()
            if time.monotonic() > deadline_s:
                raise RunFailedError(
                    f"{num_arrived} of {self.size} workers were there after {self.timeout_s:g} s"
                )
            time.sleep(_POLL_S)
        team.connect(store, timeout_s=self.timeout_s)


def threads_per_worker(num_workers: int) -> int:
    """Return the threads that each of the workers of one machine computes with."""
    return max(1, len(os.sched_getaffinity(0)) // num_workers)


@contextmanager
def working_together(
    team: Team, work: Callable[[int, Meeting], None], *, timeout_s: float
) -> Generator[None]:
    """Run the block as the first of a team whose other members are processes of this machine.

    The others end with the block: by themselves if they have come to the end of their work, else
    they are stopped; and with this process, however it ends. Ctrl-C reaches the first alone.

    Args:
        team: Not connected yet.
        work: What another worker does, given its rank and where to meet; it has to be picklable.
        timeout_s: Longest time that the workers wait for the slowest of them.

    Raises:
        RunFailedError: Naming the worker, if the block fails because one is gone, or if one does
            not arrive.
    """
    if team.size == 1:
        yield
        return
    torch.set_num_threads(threads_per_worker(team.size))
    processes: list[BaseProcess] = []
    with tempfile.TemporaryDirectory() as folder:
        meeting = Meeting(path=str(Path(folder) / "store"), size=team.size, timeout_s=timeout_s)
        try:
            processes.extend(_start(work, rank, meeting) for rank in range(1, team.size))
            meeting.join(team, lambda: _require_all(processes))
            yield
            for process in processes:
                process.join(_LEAVE_TIMEOUT_S)
        except LostWorkerError as error:
            _name_lost(processes, error)
            raise
        finally:
            for process in processes:
                process.kill()
                process.join()
            team.disconnect()


def _start(work: Callable[[int, Meeting], None], rank: int, meeting: Meeting) -> BaseProcess:
    """Start a worker that does not hear Ctrl-C from its first moment on: the first decides."""
    process = multiprocessing.get_context("spawn").Process(
        target=_work, args=(work, rank, meeting), name=f"worker-{rank}", daemon=True
    )
    # A helper of the module's own, which would let the signal through again when it starts.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    return process


def _require_all(processes: Sequence[BaseProcess], because: Exception | None = None) -> None:
    """Say who is gone, other than for the loss of another."""
    for rank, process in enumerate(processes, start=1):
        if process.exitcode not in (None, 0, _LEFT_ALONE):
            raise RunFailedError(
                f"worker {rank} ended with exit status {process.exitcode} in the middle of the run"
            ) from because


def _name_lost(processes: Sequence[BaseProcess], error: LostWorkerError) -> None:
    """Say who was lost first; a connection breaks a moment before its process has ended."""
    deadline_s = time.monotonic() + _LEAVE_TIMEOUT_S
    while time.monotonic() < deadline_s:
        _require_all(processes, error)
        if all(process.exitcode is not None for process in processes):
            return
        time.sleep(_POLL_S)


def _work(work: Callable[[int, Meeting], None], rank: int, meeting: Meeting) -> None:
    Thread(target=_leave_with_parent, daemon=True).start()
    torch.set_num_threads(threads_per_worker(meeting.size))
    try:
        work(rank, meeting)
    except LostWorkerError:
        sys.exit(_LEFT_ALONE)
    except RunFailedError:
        sys.exit(1)  # The first worker has met the same and says so.


def _leave_with_parent() -> None:
    """End this process with the one that started it, even if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
