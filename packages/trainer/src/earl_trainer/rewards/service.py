"""Several processes that compute rewards while their owner does something else."""

import queue
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import final

from earl_trainer.rewards.limits import RewardLimits
from earl_trainer.rewards.outcome import RewardFailure, RewardOutcome
from earl_trainer.rewards.process import RewardProcess, RewardStartError
from earl_trainer.rewards.transcript import Transcript

_START_TIMEOUT_S = 120.0
_START_ATTEMPTS = 3
_START_PAUSE_S = 0.5
_CLOSE_TIMEOUT_S = 5.0
_JOB_ATTEMPTS = 2
_KILLED_TWICE = RewardOutcome(
    failure=RewardFailure.CRASH, detail="its process was killed from outside, twice"
)
_CLOSED = RewardOutcome(failure=RewardFailure.CRASH, detail="the service was closed")

Ticket = Future[RewardOutcome]
"""What a job comes to; waiting for it raises `RewardStartError` where no process starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    target: str
    transcript: Transcript
    ticket: Ticket = field(default_factory=Future[RewardOutcome])


@final
class RewardService:
    """Computes rewards in processes of its own; what goes wrong with a job is its outcome.

    Each process is owned by a thread, which waits for nothing else:

        submit -> tasks -> [thread: process.run, at most wall_s; else kill, start anew] -> ticket

    A process that was killed from outside leaves its job to the next one, once. A thread whose
    process does not start ends and leaves its task to the others; when the last has ended, every
    ticket says why. Shutdown: `close` sets `stop`, which every wait of a thread looks at.

    Args:
        targets: The functions, `package.module:function`.
        num_processes: Jobs that are computed at once.
        limits: Of each job.

    Example:
        >>> with closing(RewardService(["my_rewards:brevity"], num_processes=2)) as service:
        ...     tickets = [service.submit("my_rewards:brevity", each) for each in transcripts]
        ...     values = [ticket.result(timeout=60.0).value for ticket in tickets]
    """

    def __init__(
        self,
        targets: Sequence[str],
        *,
        num_processes: int = 1,
        limits: RewardLimits | None = None,
    ) -> None:
        self._targets = tuple(targets)
        self._limits = limits or RewardLimits()
        self._stop = Event()
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._lock = Lock()
        self._num_serving = num_processes
        self._problem: RewardStartError | None = None
        self._processes: list[RewardProcess | None] = [None] * num_processes
        self._threads = [
            Thread(target=self._serve, args=(place,), name=f"rewards-{place}", daemon=True)
            for place in range(num_processes)
        ]
        for thread in self._threads:
            thread.start()

    def pids(self) -> list[int]:
        """Return the processes that are ready for jobs, or at one."""
        ready = [process for process in self._processes if process is not None]
        return [process.pid for process in ready if process.is_usable]

    def submit(self, target: str, transcript: Transcript) -> Ticket:
        """Take a job on and return at once.

        Raises:
            ValueError: If the function was not named at construction.
        """
        if target not in self._targets:
            raise ValueError(f"{target!r} is none of the service's functions {self._targets}")
        task = _Task(target=target, transcript=transcript)
        with self._lock:
            if self._num_serving and not self._stop.is_set():
                self._tasks.put(task)
                return task.ticket
        self._refuse(task)
        return task.ticket

    def close(self) -> None:
        """End all processes, whatever they do, within 5 s; a second time does nothing.

        Jobs that were not computed have come to nothing, and their tickets say so.
        """
        with self._lock:
            self._stop.set()
        for _ in self._threads:
            self._tasks.put(None)
        deadline_s = time.monotonic() + _CLOSE_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        self._refuse_all()

    def _serve(self, place: int) -> None:
        task: _Task | None = None
        try:
            self._ready(place)
            while (task := self._tasks.get()) is not None:
                self._compute(place, task)
        except RewardStartError as error:
            self._give_up(error, task)
        finally:
            process = self._processes[place]
            if process is not None:
                process.kill()

    def _ready(self, place: int) -> RewardProcess:
        """Return this thread's process, started anew if it has ended."""
        process, attempts = self._processes[place], 1
        while process is None or not process.is_usable:
            try:
                process = RewardProcess(
                    self._targets, self._limits, start_timeout_s=_START_TIMEOUT_S, stop=self._stop
                )
            except RewardStartError:
                if attempts == _START_ATTEMPTS or self._stop.wait(_START_PAUSE_S):
                    raise
                attempts += 1
        self._processes[place] = process
        return process

    def _compute(self, place: int, task: _Task) -> None:
        outcome, attempts = None, 0
        while outcome is None and attempts < _JOB_ATTEMPTS and not self._stop.is_set():
            outcome = self._ready(place).run(task.target, task.transcript)
            attempts += 1
        task.ticket.set_result(outcome or (_CLOSED if self._stop.is_set() else _KILLED_TWICE))

    def _give_up(self, error: RewardStartError, task: _Task | None) -> None:
        with self._lock:
            self._num_serving -= 1
            self._problem = error
            if task is not None:
                self._tasks.put(task)
            is_last = self._num_serving == 0
        if is_last:
            self._refuse_all()

    def _refuse_all(self) -> None:
        try:
            while True:
                task = self._tasks.get_nowait()
                if task is not None:
                    self._refuse(task)
        except queue.Empty:
            pass

    def _refuse(self, task: _Task) -> None:
        if self._stop.is_set() or self._problem is None:
            task.ticket.set_result(_CLOSED)
        else:
            task.ticket.set_exception(self._problem)
