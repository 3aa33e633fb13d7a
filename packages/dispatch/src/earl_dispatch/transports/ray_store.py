"""Everything through the Ray object store: the baseline of controllers that are Ray drivers."""

import sys
import uuid
from collections.abc import Mapping
from types import ModuleType
from typing import Any, final

import torch
from torch import Tensor

from earl_dispatch.chunked import limit_like
from earl_dispatch.columns import Columns
from earl_dispatch.execution import Execution
from earl_dispatch.link import Link
from earl_dispatch.plan import TransferPlan
from earl_dispatch.transports.gather_scatter import central_plans

_SESSION_BYTES = 16


def ray_store(plan: TransferPlan, columns: Columns, link: Link) -> Columns:
    """Put all rows into the object store; rank 0 gets them, and puts what every rank then gets.

    The ranks are processes that are attached to one Ray cluster: drivers, tasks or actors. Only
    references to objects pass between them, through a small actor named `earl_dispatch_mailbox`
    that is made once in a cluster: references that are pickled by hand are never freed by Ray. The
    objects are freed when every rank has read its own.

    Raises:
        ValueError: On all ranks, if `ray.init` has not been called in the process of one of them.
        RuntimeError: If the store does not give an object within the link's timeout.
    """
    ray = _require_ray(link)
    session = torch.frombuffer(bytearray(uuid.uuid4().bytes), dtype=torch.uint8)
    sessions = link.exchange([session] * link.num_ranks, [_SESSION_BYTES] * link.num_ranks)
    device = columns.lengths.device
    mailbox = _Store(ray, link, bytes(sessions[0].tolist()).hex(), device=device)
    for central in (limit_like(each, plan) for each in central_plans(plan)):
        execution = Execution(central, columns, rank=link.rank)
        for number in range(len(central.rounds)):
            execution.accept(number, mailbox.exchange(execution.outgoing(number)))
        columns = execution.result()
    return columns


def _require_ray(link: Link) -> ModuleType:
    # Ray stays optional: where it is initialised somebody has imported it.
    ray = sys.modules.get("ray")
    word = torch.tensor([ray is not None and ray.is_initialized()], dtype=torch.uint8)
    words = link.exchange([word] * link.num_ranks, [1] * link.num_ranks)
    without = [rank for rank, ready in enumerate(words) if not int(ready)]
    if ray is None or without:
        raise ValueError(
            "transport 'ray_store' needs ray.init in the process of every rank, rank "
            f"{without[0]} has none"
        )
    return ray


@final
class _Store:
    """Exchanges buffers through the object store."""

    def __init__(self, ray: ModuleType, link: Link, session: str, *, device: torch.device) -> None:
        self._device = device
        self._ray = ray
        self._link = link
        self._session = session
        self._num_exchanges = 0
        self._mailbox = (
            ray
            .remote(Mailbox)
            .options(
                name="earl_dispatch_mailbox",
                namespace="earl_dispatch",
                lifetime="detached",
                get_if_exists=True,
                num_cpus=0,
            )
            .remote()
        )

    def exchange(self, outgoing: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Send one buffer to each rank that is named, and return those that are sent here."""
        ray, rank, timeout_s = self._ray, self._link.rank, self._link.timeout_s
        # Nobody waits for a session to be forgotten: the next exchange is one of its own.
        session = f"{self._session}/{self._num_exchanges}"
        self._num_exchanges += 1
        try:
            # In a list, so that the reference itself is passed and not what it stands for.
            refs = {to: [ray.put(buffer.cpu().numpy())] for to, buffer in outgoing.items()}
            ray.get(self._mailbox.post.remote(session, rank, refs), timeout=timeout_s)
            self._meet()
            letters: Letters = ray.get(self._mailbox.take.remote(session, rank), timeout=timeout_s)
            arrays = ray.get([ref for (ref,) in letters.values()], timeout=timeout_s)
            # The store's memory is read-only and goes away with the reference.
            received = {
                source: torch.from_numpy(array.copy())
                for source, array in zip(letters, arrays, strict=True)
            }
            self._meet()
        except ray.exceptions.RayError as error:
            # Whoever is gone has left its objects behind as lost; the others are met once more.
            raise self._link.broken(f"the Ray object store ({type(error).__name__})") from error
        finally:
            self._mailbox.forget.remote(session)
        return {source: buffer.to(self._device) for source, buffer in received.items()}

    def _meet(self) -> None:
        nothing = torch.empty(0, dtype=torch.uint8)
        self._link.exchange([nothing] * self._link.num_ranks, [0] * self._link.num_ranks)


Letters = dict[int, list[Any]]
"""Rank -> list of the one reference that is for it, or from it."""


@final
class Mailbox:
    """References on their way; runs as an actor."""

    def __init__(self) -> None:
        self._letters: dict[str, dict[int, Letters]] = {}

    def post(self, session: str, sender: int, letters: Letters) -> None:
        """Keep letters until their receivers take them."""
        boxes = self._letters.setdefault(session, {})
        for receiver, letter in letters.items():
            boxes.setdefault(receiver, {})[sender] = letter

    def take(self, session: str, receiver: int) -> Letters:
        """Hand out the letters for a rank, by their sender."""
        return self._letters.get(session, {}).pop(receiver, {})

    def forget(self, session: str) -> None:
        """Drop what nobody has taken."""
        self._letters.pop(session, None)
