"""Inside a reward process: one job after the other, each under its own limits."""

import ctypes
import json
import math
import os
import pickle
import queue
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from threading import Thread
from typing import Any, cast

import numpy as np
from earl_envs import Failure, attempt

from earl_trainer.rewards.frames import receive_frame, send_frame
from earl_trainer.rewards.function import RewardCallable, UnfitFunctionError, load_function
from earl_trainer.rewards.limits import RewardLimits
from earl_trainer.rewards.outcome import RewardFailure
from earl_trainer.rewards.strays import kill_marked
from earl_trainer.rewards.transcript import Transcript

NO_MEMORY_STATUS = 71
"""Exit status of a process that has no memory left to say so."""
_MAX_DETAIL = 500
_MAX_JOB_BYTES = 1024**3
# man 2 prctl: processes whose parent is gone become children of this one.
_PR_SET_CHILD_SUBREAPER = 36

Answer = dict[str, Any]  # Any: plain values for JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The first message to a process."""

    targets: Sequence[str]
    """The functions that it is to know."""
    limits: RewardLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be computed."""

    number: int
    target: str
    transcript: Transcript


def main(handle: int, mark: str) -> None:
    """Serve the socket of this number until its other end is closed.

    A thread listens, so that this process ends with its owner, whatever it is computing.
    """
    channel = socket.socket(fileno=handle)
    channel.set_inheritable(False)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    messages: queue.SimpleQueue[object] = queue.SimpleQueue()
    Thread(target=_listen, args=(channel, messages, mark), daemon=True).start()
    try:
        _serve(channel, messages)
    except MemoryError:
        os._exit(NO_MEMORY_STATUS)


def _listen(channel: socket.socket, messages: "queue.SimpleQueue[object]", mark: str) -> None:
    try:
        while True:
            body = receive_frame(channel, timeout_s=None, max_bytes=_MAX_JOB_BYTES)
            messages.put(pickle.loads(body))
    except MemoryError:
        os._exit(NO_MEMORY_STATUS)
    except (EOFError, OSError):
        kill_marked(mark)
        os.killpg(0, signal.SIGKILL)


def _serve(channel: socket.socket, messages: "queue.SimpleQueue[object]") -> None:
    orders, own_pid = messages.get(), os.getpid()
    assert isinstance(orders, Orders)
    orders.limits.bind_memory()
    functions: dict[str, RewardCallable] = {}
    for target in orders.targets:
        loaded = _guarded(_load, target)
        if isinstance(loaded, Failure):
            _answer(channel, {"problem": f"{target}: {loaded.error}"[:_MAX_DETAIL]})
            return
        functions[target] = loaded
    orders.limits.bind_output()
    _answer(channel, {"problem": ""})
    while True:
        job = messages.get()
        assert isinstance(job, Job)
        orders.limits.bind_job()
        answer = _compute(functions, job)
        if os.getpid() != own_pid:
            os._exit(0)  # A fork that came back from the function.
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        _answer(channel, {**answer, "number": job.number, "children": _has_children()})


def _load(target: str) -> RewardCallable | Failure:
    try:
        return load_function(target)
    except UnfitFunctionError as error:
        return Failure(error=str(error))


def _answer(channel: socket.socket, answer: Answer) -> None:
    send_frame(channel, json.dumps(answer).encode(), timeout_s=None)


def _guarded(function: Any, *args: object) -> Any:  # noqa: ANN401 - anything that users wrote
    """Call what users wrote; a wish to end the process is a failure like others."""
    try:
        return attempt(function, *args)
    except (SystemExit, KeyboardInterrupt) as error:
        return Failure(error=f"{type(error).__name__}: {error}")


def _compute(functions: Mapping[str, RewardCallable], job: Job) -> Answer:
    def call() -> object:
        try:
            return functions[job.target](job.transcript)
        except MemoryError:
            return RewardFailure.MEMORY

    value = _guarded(call)
    if value is RewardFailure.MEMORY:
        return {"failure": RewardFailure.MEMORY, "detail": "it ran out of memory"}
    if isinstance(value, Failure):
        return _refuse(value.error)
    read = _guarded(_read, value, len(job.transcript.replies))
    return _refuse(read.error) if isinstance(read, Failure) else read


def _read(value: object, num_replies: int) -> Answer:
    """Take what a function returned: a number, or as many as there are replies."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if isinstance(value, list | tuple):
        return _read_parts(cast("Sequence[object]", value), num_replies)
    number = _finite(value)
    if number is None:
        return _refuse(f"a reward must be a finite number, got {_described(value)}")
    return {"value": number}


def _read_parts(values: Sequence[object], num_replies: int) -> Answer:
    if len(values) != num_replies:
        return _refuse(
            f"a function that rewards replies returns a number for each, {num_replies}, got "
            f"{len(values)}"
        )
    parts = [_finite(each) for each in values]
    if None in parts or _finite(sum(part or 0.0 for part in parts)) is None:
        return _refuse(
            f"rewards of replies must be finite numbers with a finite sum, got {_described(values)}"
        )
    return {"parts": parts}


def _finite(value: object) -> float | None:
    number = attempt(float, value) if isinstance(value, Real) else None
    return number if isinstance(number, float) and math.isfinite(number) else None


def _described(value: object) -> str:
    text = attempt(repr, value)
    return text.error if isinstance(text, Failure) else text


def _refuse(detail: str) -> Answer:
    return {"failure": RewardFailure.ERROR, "detail": detail[:_MAX_DETAIL]}


def _has_children() -> bool:
    """Say whether something goes on that the function started; reap what has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
