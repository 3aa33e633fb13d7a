"""Weights that go from the process that learns straight to those that generate."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, final, runtime_checkable

import torch.distributed as dist
from torch import Tensor, nn

from earl_trainer.asynchronous.flat_weights import FlatLayout
from earl_trainer.asynchronous.weight_group import (
    BrokenBroadcastError,
    Meeting,
    WeightGroup,
    device_id_of,
    device_key,
    open_group,
)
from earl_trainer.asynchronous.weights import checksums, distinct_parameters, pack_weights
from earl_trainer.asynchronous.workers import LostRolloutWorkerError, Workers
from earl_trainer.types import RunFailedError

_ATTEMPTS = 2
_POLL_S = 0.02
# Connections of a broken group are closed, so that all who are there say so at once.
_ANSWER_TIMEOUT_S = 5.0


@runtime_checkable
class Receivers(Protocol):
    """A `WeightReceiver` in each worker's process, called by the worker's number."""

    def join(self, worker: int, meeting: Meeting) -> None:
        """Make a receiver meet others; `hear` tells how it went."""
        ...

    def receive(self, worker: int, layout: FlatLayout, bucket_bytes: int) -> None:
        """Make a receiver take part in a broadcast; `hear` tells how it went."""
        ...

    def hear(self, timeout_s: float) -> Mapping[int, str | None]:
        """Return what went wrong at those that have done as they were told; wait for the first.

        Raises:
            LostRolloutWorkerError: If one is gone.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastRules:
    """How weights are broadcast."""

    host: str
    """Under which the workers reach the process that learns."""
    bucket_bytes: int
    timeout_s: float
    """Longest time that meeting, or one exchange, may wait for the slowest worker."""
    check: bool = False
    """Send checksums along, which are compared with what arrives."""


@final
class BroadcastPublication:
    """A process group of the learner and all workers, in which it sends buckets of its weights.

    Workers take them in beside what they generate, as copies: one that failed half-way leaves
    everybody with the weights from before. Only when all have everything are they told to use it.
    The group lasts as long as its members: with one that is gone or new it is made anew.

        meet:  here a store -> join(all) -> sign in there -> all here: connect, else who is missing
        send:  receive(all) -> buckets -> all arrived -> publish(version); else who is gone

    Args:
        workers: Are told to use what has arrived.
        receivers: Theirs.
        rules: How.
    """

    def __init__(self, workers: Workers, receivers: Receivers, rules: BroadcastRules) -> None:
        self._workers = workers
        self._receivers = receivers
        self._rules = rules
        self._group: WeightGroup | None = None
        self._members: tuple[int, ...] = ()

    def publish(self, model: nn.Module, version: int, workers: Sequence[int]) -> None:
        """Bring weights to workers, all or none.

        Raises:
            LostRolloutWorkerError: If one is gone or does not take part in time.
            RunFailedError: If they do not arrive though nobody is gone.
        """
        parameters = list(distinct_parameters(model).values())
        for attempt in range(_ATTEMPTS):
            try:
                if self._group is None or self._members != tuple(workers):
                    self._group = self._meet(tuple(workers), device_id_of(model))
                self._send(parameters)
                break
            except (BrokenBroadcastError, LostRolloutWorkerError) as error:
                self.close()
                if isinstance(error, LostRolloutWorkerError):
                    raise
                if attempt + 1 == _ATTEMPTS:
                    raise RunFailedError(f"new weights did not arrive: {error}") from error
        sums = checksums(pack_weights(model)) if self._rules.check else None
        for worker in workers:
            self._workers.publish(worker, version, None, sums)

    def forget(self, worker: int) -> None:
        """Meet anew before the next broadcast."""
        if worker in self._members:
            self.close()

    def close(self) -> None:
        """Close the connections."""
        self._group, self._members = None, ()

    def _meet(self, workers: tuple[int, ...], device_id: str) -> WeightGroup:
        self.close()
        rules, size = self._rules, len(workers) + 1
        store = dist.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
            rules.host,
            0,
            is_master=True,
            wait_for_workers=False,
            timeout=timedelta(seconds=rules.timeout_s),
        )
        for rank, worker in enumerate(workers, start=1):
            meeting = Meeting(
                host=rules.host,
                port=store.port,
                rank=rank,
                size=size,
                timeout_s=rules.timeout_s,
            )
            self._receivers.join(worker, meeting)
        deadline_s = time.monotonic() + rules.timeout_s
        missing = dict(zip(workers, map(device_key, range(1, size)), strict=True))
        while missing := {worker: key for worker, key in missing.items() if not store.check([key])}:
            self._require_time(list(missing), deadline_s, rules.timeout_s)
            for worker, why in self._receivers.hear(_POLL_S).items():
                # Who has signed in says no more than that it waited for the missing.
                if worker in missing:
                    raise BrokenBroadcastError(why or "it did not sign in")
        group = open_group(store, size=size, device_id=device_id, timeout_s=rules.timeout_s)
        self._hear(workers, rules.timeout_s)
        self._members = workers
        return group

    def _send(self, parameters: Sequence[Tensor]) -> None:
        layout, members, timeout_s = FlatLayout.of(parameters), self._members, self._rules.timeout_s
        for worker in members:
            self._receivers.receive(worker, layout, self._rules.bucket_bytes)
        failure = self._try_to_send(parameters)
        if failure:
            self.close()
            timeout_s = min(timeout_s, _ANSWER_TIMEOUT_S)
        self._hear(members, timeout_s)
        if failure:
            raise BrokenBroadcastError(failure)

    def _try_to_send(self, parameters: Sequence[Tensor]) -> str:
        """Return what went wrong; when it has, nothing but `_group` refers to the group."""
        assert self._group is not None
        try:
            self._group.send(parameters, self._rules.bucket_bytes)
        except BrokenBroadcastError as error:
            return str(error)
        return ""

    def _hear(self, workers: Sequence[int], timeout_s: float) -> None:
        """Wait until all receivers have done as they were told."""
        waiting, failures = set(workers), list[str]()
        deadline_s = time.monotonic() + timeout_s
        while waiting:
            for worker, why in self._receivers.hear(_POLL_S).items():
                waiting.discard(worker)
                failures += [why] if why else []
            self._require_time(sorted(waiting), deadline_s, timeout_s)
        if failures:
            raise BrokenBroadcastError(failures[0])

    def _require_time(self, missing: Sequence[int], deadline_s: float, timeout_s: float) -> None:
        if missing and time.monotonic() > deadline_s:
            raise LostRolloutWorkerError(
                missing[0], f"it took no part in a broadcast for {timeout_s:g} s"
            )
