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
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import final

import torch
import torch.distributed as dist

from earl_trainer.types import RunFailedError
from earl_trainer.workers.team import Team

_ARRIVED = "arrived"
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


@contextmanager
def working_together(
    team: Team, work: Callable[[int, Meeting], None], *, timeout_s: float
) -> Generator[None]:
    """Run the block as the first of a team whose other members are processes of this machine.

    The others end with the block: by themselves if they have come to the end of their work, else
    they are stopped. Ctrl-C reaches the first alone.

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
    with tempfile.TemporaryDirectory() as folder:
        meeting = Meeting(path=str(Path(folder) / "store"), size=team.size, timeout_s=timeout_s)
        processes = [
            multiprocessing.get_context("spawn").Process(
                target=_work, args=(work, rank, meeting), name=f"worker-{rank}"
            )
            for rank in range(1, team.size)
        ]
        try:
            for process in processes:
                process.start()
            meeting.join(team, lambda: _require_all(processes))
            yield
            for process in processes:
                process.join(_LEAVE_TIMEOUT_S)
        except RunFailedError:
            raise
        except RuntimeError as error:
            # A connection breaks a moment before its process has ended.
            wait([process.sentinel for process in processes], timeout=_LEAVE_TIMEOUT_S)
            _require_all(processes, because=error)
            raise
        finally:
            for process in processes:
                process.kill()
                process.join()
            team.disconnect()


def threads_per_worker(num_workers: int) -> int:
    """Return the threads that each of the workers of one machine computes with."""
    return max(1, (os.cpu_count() or 1) // num_workers)


def _require_all(processes: Sequence[BaseProcess], *, because: RuntimeError | None = None) -> None:
    """Say who is gone; whoever is left ends with the run."""
    for rank, process in enumerate(processes, start=1):
        if process.exitcode not in (None, 0):
            raise RunFailedError(
                f"worker {rank} ended with exit status {process.exitcode} in the middle of the run"
            ) from because


def _work(work: Callable[[int, Meeting], None], rank: int, meeting: Meeting) -> None:
    # The first worker hears Ctrl-C and decides what becomes of the others.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    torch.set_num_threads(threads_per_worker(meeting.size))
    try:
        work(rank, meeting)
    except RunFailedError:
        sys.exit(1)  # The first worker has met the same and says so.
