"""One process that computes rewards, seen from its owner, who can end it at any moment."""

import fcntl
import json
import math
import os
import pickle
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from threading import Event
from typing import Any, final

from earl_trainer.rewards.child import NO_MEMORY_STATUS, Job, Orders
from earl_trainer.rewards.frames import receive_frame, send_frame
from earl_trainer.rewards.limits import RewardLimits
from earl_trainer.rewards.outcome import RewardFailure, RewardOutcome
from earl_trainer.rewards.strays import MARK, kill_marked
from earl_trainer.rewards.transcript import Transcript
from earl_trainer.types import RunFailedError

_POLL_S = 0.05
_END_TIMEOUT_S = 5.0
_MAX_ANSWER_BYTES = 1024**2
_SHOWN_OUTPUT_BYTES = 200
# Of what ends a process from outside, and says nothing of what it was computing.
_FROM_OUTSIDE = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT}
# What reading raises where the process has ended, or its answer is none of `child`'s.
_UNREADABLE = (EOFError, OSError, ValueError, RecursionError)
_CHILD = (
    "import sys; sys.path[:] = {path!r}; "
    "from earl_trainer.rewards.child import main; main({handle}, {mark!r})"
)


class RewardStartError(RunFailedError):
    """A reward process does not start; the message says why."""


class _StoppedError(Exception):
    """The owner wants nothing any more."""


@final
class RewardProcess:
    """A warm interpreter that has imported the functions and computes one job at a time.

    It leads a session of its own, so that it and what it has started in it are killed at once;
    what has left the session is found by a mark in its environment. One thread owns it.

    Lifecycle: started by being made; `run` while `is_usable`; ended by `kill`.

    Args:
        targets: The functions, `package.module:function`.
        limits: Of one job.
        start_timeout_s: Longest time that importing them may take.
        stop: Once set, whatever is waited for is given up.

    Raises:
        RewardStartError: If it does not start; says why.
    """

    def __init__(
        self,
        targets: Sequence[str],
        limits: RewardLimits,
        *,
        start_timeout_s: float | int,
        stop: Event,
    ) -> None:
        self._limits = limits
        self._stop = stop
        self._mark = secrets.token_hex(16)
        self._num_jobs = 0
        self.is_usable = self._killed = False
        try:
            self._start()
        except OSError as error:
            raise RewardStartError(f"a reward process does not start: {error}") from error
        try:
            self._set_up(Orders(targets=targets, limits=limits), start_timeout_s)
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """Of the process, and of its session."""
        return self._process.pid

    def run(self, target: str, transcript: Transcript) -> RewardOutcome | None:
        """Compute a reward.

        Returns:
            What it came to; None where the process was killed from outside, which says nothing of
            the job. Unless `is_usable`, the process has ended.
        """
        start_s = time.monotonic()
        self._num_jobs += 1
        told = replace(transcript, limit_s=self._limits.wall_s)
        job = Job(number=self._num_jobs, target=target, transcript=told)
        try:
            answer = self._ask(job, start_s + self._limits.wall_s)
            outcome = self._read(answer, len(transcript.replies))
        except TimeoutError:
            self.kill()
            why = f"it took more than {self._limits.wall_s:g} s"
            outcome = RewardOutcome(failure=RewardFailure.TIMEOUT, detail=why)
        except _StoppedError:
            self.kill()
            outcome = RewardOutcome(
                failure=RewardFailure.CRASH, detail="it was stopped, as the service was closed"
            )
        except _UNREADABLE:
            outcome = self._explain_end()
        return outcome and replace(outcome, took_s=time.monotonic() - start_s)

    def kill(self) -> None:
        """End the process and everything that it has started; again does nothing."""
        self.is_usable = False
        if self._killed:
            return
        self._killed = True
        # Before anybody asks about its end: until then its number is nobody else's.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        kill_marked(self._mark)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_TIMEOUT_S)
        self._channel.close()
        os.close(self._output)

    def _start(self) -> None:
        # The folder that the run was started in comes last, behind everything installed.
        path = [*(str(entry) or os.getcwd() for entry in sys.path), os.getcwd()]
        with ExitStack() as undo:
            self._output = os.memfd_create("output")
            undo.callback(os.close, self._output)
            # Shared by all writers, so that emptying it between jobs makes them begin anew.
            fcntl.fcntl(self._output, fcntl.F_SETFL, os.O_APPEND)
            self._channel, other = socket.socketpair()
            undo.callback(self._channel.close)
            with other:
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, "-P", "-c"),
                        _CHILD.format(path=path, handle=other.fileno(), mark=self._mark),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=self._output,
                    stderr=self._output,
                    pass_fds=(other.fileno(),),
                    start_new_session=True,
                    env={**os.environ, MARK: self._mark},
                )
            undo.pop_all()

    def _set_up(self, orders: Orders, timeout_s: float | int) -> None:
        deadline_s = time.monotonic() + timeout_s
        try:
            send_frame(self._channel, pickle.dumps(orders), timeout_s=timeout_s)
            answer = self._hear(deadline_s)
        except TimeoutError as error:
            raise RewardStartError(
                f"importing {', '.join(orders.targets)} took more than {timeout_s:g} s"
            ) from error
        except _StoppedError as error:
            raise RewardStartError("the service was closed") from error
        except _UNREADABLE as error:
            outcome = self._explain_end()
            why = "it was killed" if outcome is None else outcome.detail
            raise RewardStartError(
                f"importing {', '.join(orders.targets)} failed: {why}"
            ) from error
        if answer["problem"]:
            raise RewardStartError(answer["problem"])
        self.is_usable = True

    def _ask(self, job: Job, deadline_s: float) -> dict[str, Any]:  # Any: parsed JSON
        os.ftruncate(self._output, 0)
        left_s = max(_POLL_S, deadline_s - time.monotonic())
        send_frame(self._channel, pickle.dumps(job), timeout_s=left_s)
        while True:
            answer = self._hear(deadline_s)
            if answer.get("number") == job.number:
                return answer

    def _hear(self, deadline_s: float) -> dict[str, Any]:  # Any: parsed JSON
        """Wait for a message, for the end of the process, or to be stopped.

        What the process has started may hold its end of the connection open.
        """
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        while True:
            ended = self._has_ended()
            left_s = deadline_s - time.monotonic()
            if poll.poll(0 if ended else 1000.0 * max(0.0, min(_POLL_S, left_s))):
                body = receive_frame(
                    self._channel, timeout_s=max(_POLL_S, left_s), max_bytes=_MAX_ANSWER_BYTES
                )
                answer = json.loads(body)
                if not isinstance(answer, dict):
                    raise ValueError("an answer must be an object")
                return answer
            if self._stop.is_set():
                raise _StoppedError
            if ended:
                raise EOFError("the process has ended")
            if left_s <= 0.0:
                raise TimeoutError

    def _has_ended(self) -> bool:
        """Look without reaping, after which its number could be somebody else's."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, options) is not None

    def _read(self, answer: dict[str, Any], num_replies: int) -> RewardOutcome:  # Any: parsed JSON
        kind, parts = answer.get("failure"), _parts_of(answer, num_replies)
        value = sum(parts) if parts else answer.get("value")
        failure = None if kind is None else RewardFailure(kind)
        if failure is None and not _is_finite(value):
            raise ValueError("an answer must hold a value, or parts of it, or a failure")
        # What is left running ends with the job, and after a lack of memory nothing is certain.
        if answer.get("children") or failure is RewardFailure.MEMORY:
            self.kill()
        return RewardOutcome(
            value=value,
            parts=parts,
            failure=failure,
            detail=str(answer.get("detail", "")),
        )

    def _explain_end(self) -> RewardOutcome | None:
        """Say why the process has ended; None for what came from outside."""
        deadline_s = time.monotonic() + 1.0
        while not self._has_ended() and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        ended_itself, said = self._has_ended(), self._last_words()
        self.kill()
        status = self._process.returncode
        if not ended_itself:
            return RewardOutcome(
                failure=RewardFailure.CRASH, detail=f"its answer cannot be read{said}"
            )
        if status in _FROM_OUTSIDE:
            return None
        if status == NO_MEMORY_STATUS:
            return RewardOutcome(failure=RewardFailure.MEMORY, detail="it ran out of memory")
        if status == -signal.SIGXCPU:
            why = f"it took more than {self._limits.cpu_s} s of the processor"
            return RewardOutcome(failure=RewardFailure.TIMEOUT, detail=why)
        end = f"exit status {status}"
        if status < 0:
            end = f"signal {-status} ({signal.strsignal(-status)})"
        return RewardOutcome(
            failure=RewardFailure.CRASH, detail=f"its process ended by {end}{said}"
        )

    def _last_words(self) -> str:
        size = os.fstat(self._output).st_size
        start = max(0, size - _SHOWN_OUTPUT_BYTES)
        text = os.pread(self._output, _SHOWN_OUTPUT_BYTES, start).decode(errors="replace")
        return f", after it printed {' '.join(text.split())!r}" if text.strip() else ""


def _parts_of(answer: dict[str, Any], num_replies: int) -> tuple[float, ...]:  # Any: parsed JSON
    if "parts" not in answer:
        return ()
    parts = tuple(answer["parts"]) if isinstance(answer["parts"], list) else ()
    if len(parts) != num_replies or not all(map(_is_finite, parts)):
        raise ValueError("the parts of an answer must be a finite number for each reply")
    return parts


def _is_finite(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)
