"""A process group over which one process gives its weights to others."""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, final

import torch
import torch.distributed as dist
from jaxtyping import UInt8
from torch import Tensor, nn
from torch.distributed.distributed_c10d import ProcessGroupGloo

from earl_trainer.asynchronous.flat_weights import FlatLayout
from earl_trainer.types import RunFailedError

GLOO, NCCL = "gloo", "nccl"
_BUCKETS_ON_THE_WAY = 2
_POLL_S = 0.0005
_BACKEND_KEY = "backend"


class BrokenBroadcastError(RunFailedError):
    """Somebody does not send or receive what the others do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Where a receiver finds the group that it is to join, and its place in there."""

    host: str
    port: int
    rank: int
    """From 1 on; who sends is 0."""
    size: int
    timeout_s: float
    """Longest time that one exchange may wait for the slowest."""


@final
class WeightGroup:
    """The members of one broadcast, seen from one of them; rank 0 sends.

    It is a group of its own, apart from any default group of the process. Letting go of it closes
    the connections, at which whatever the others wait for on them fails.

    Args:
        store: Where the members meet.
        rank: Of this one.
        size: How many there are.
        backend: `choose_backend` of their devices.
        timeout_s: Longest time that one exchange may wait for the slowest.

    Raises:
        BrokenBroadcastError: If they do not meet in time.
    """

    def __init__(
        self,
        store: dist.Store,  # pyright: ignore[reportPrivateImportUsage]
        *,
        rank: int,
        size: int,
        backend: str,
        timeout_s: float,
    ) -> None:
        self._timeout_s = timeout_s
        self._device = torch.device("cuda" if backend == NCCL else "cpu")
        try:
            self._group = _make_group(store, rank, size, backend, timedelta(seconds=timeout_s))
        except RuntimeError as error:
            raise BrokenBroadcastError(f"no process group: {one_line(error)}") from None

    def send(self, parameters: Sequence[Tensor], bucket_bytes: int) -> None:
        """Give parameters to all others; the next bucket is gathered while one is on its way.

        Raises:
            BrokenBroadcastError: If somebody does not take them.
        """
        layout = FlatLayout.of(parameters)
        buckets = layout.buckets(bucket_bytes)
        room = min(bucket_bytes, layout.offsets_bytes[-1])
        spaces = [
            torch.zeros(room, dtype=torch.uint8, device=self._device)
            for _ in range(_BUCKETS_ON_THE_WAY)
        ]

        def gathered() -> Iterable[Tensor]:
            for number, (begin, end) in enumerate(buckets):
                bucket = spaces[number % _BUCKETS_ON_THE_WAY][: end - begin]
                layout.gather(parameters, begin, bucket)
                yield bucket

        self._exchange(gathered())

    def receive(self, layout: FlatLayout, bucket_bytes: int) -> UInt8[Tensor, " bytes"]:
        """Return the row of bytes that rank 0 sends.

        Raises:
            BrokenBroadcastError: If it does not come.
        """
        row = torch.empty(layout.offsets_bytes[-1], dtype=torch.uint8, device=self._device)
        self._exchange(row[begin:end] for begin, end in layout.buckets(bucket_bytes))
        return row

    def _exchange(self, buckets: Iterable[Tensor]) -> None:
        """Broadcast buckets, the next one being made ready while those before are on their way."""
        on_the_way = deque[Any]()  # Any: handles without a public type
        try:
            for bucket in buckets:
                on_the_way.append(self._group.broadcast(bucket, 0))
                if len(on_the_way) == _BUCKETS_ON_THE_WAY:
                    self._finish(on_the_way.popleft())
            while on_the_way:
                self._finish(on_the_way.popleft())
        except RuntimeError as error:
            # Not chained: its traceback would hold the connections open.
            raise BrokenBroadcastError(one_line(error)) from None

    def _finish(self, work: Any) -> None:  # noqa: ANN401 - a handle without a public type
        # NCCL's own waiting holds up the stream alone, and knows no time.
        deadline_s = time.monotonic() + self._timeout_s
        while not work.is_completed():
            if time.monotonic() > deadline_s:
                self._group.abort()
                raise BrokenBroadcastError(f"a bucket was not through in {self._timeout_s:g} s")
            time.sleep(_POLL_S)
        work.wait()


def join_group(meeting: Meeting, device_id: str) -> WeightGroup:
    """Sign in as a receiver, and meet the others once all have.

    Args:
        meeting: Where and as whom.
        device_id: Of the GPU that the weights are for; empty without one.

    Raises:
        BrokenBroadcastError: If they do not meet in time.
    """
    timeout = timedelta(seconds=meeting.timeout_s)
    try:
        store = dist.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
            meeting.host, meeting.port, is_master=False, timeout=timeout
        )
        store.set(device_key(meeting.rank), device_id)
        backend = store.get(_BACKEND_KEY).decode()
    except RuntimeError as error:
        raise BrokenBroadcastError(f"the sender does not answer: {one_line(error)}") from None
    return WeightGroup(
        store,
        rank=meeting.rank,
        size=meeting.size,
        backend=backend,
        timeout_s=meeting.timeout_s,
    )


def open_group(
    store: dist.Store,  # pyright: ignore[reportPrivateImportUsage]
    *,
    size: int,
    device_id: str,
    timeout_s: float,
) -> WeightGroup:
    """Be the sender of a group whose receivers have all signed in.

    Raises:
        BrokenBroadcastError: If they do not meet in time.
    """
    receivers = [store.get(device_key(rank)).decode() for rank in range(1, size)]
    backend = choose_backend([device_id, *receivers])
    store.set(_BACKEND_KEY, backend)
    return WeightGroup(store, rank=0, size=size, backend=backend, timeout_s=timeout_s)


def device_key(rank: int) -> str:
    """Return what a receiver signs in under."""
    return f"device/{rank}"


def choose_backend(device_ids: Sequence[str]) -> str:
    """Return NCCL where every member has a GPU that no other has, as it needs, else gloo."""
    return NCCL if all(device_ids) and len(set(device_ids)) == len(device_ids) else GLOO


def device_id_of(model: nn.Module | None = None) -> str:
    """Return which GPU a model is on, or this process has; empty without one."""
    device = torch.device("cuda") if model is None else next(model.parameters()).device
    if device.type != "cuda" or not torch.cuda.is_available():
        return ""
    return str(torch.cuda.get_device_properties(device).uuid)


def one_line(error: BaseException) -> str:
    """Return an error's text without its line breaks."""
    return " ".join(str(error).split())


def _make_group(
    store: dist.Store,  # pyright: ignore[reportPrivateImportUsage]
    rank: int,
    size: int,
    backend: str,
    timeout: timedelta,
) -> Any:  # noqa: ANN401 - both kinds have the methods that are called
    if backend == GLOO:
        return ProcessGroupGloo(store, rank, size, timeout)
    from torch.distributed.distributed_c10d import ProcessGroupNCCL  # In builds for GPUs alone.

    options = ProcessGroupNCCL.Options()
    options._timeout = timeout
    return ProcessGroupNCCL(store, rank, size, options)
