"""The connection between ranks that transports send bytes over."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import final

import torch
import torch.distributed as dist
from jaxtyping import Float64, UInt8
from torch import Tensor
from torch.distributed import ProcessGroup

from earl_dispatch.ring import ring_exchange
from earl_dispatch.roll_call import absent_ranks

_EXCHANGE_TAG = 0x4542
# Of messages that nobody sends.
_NEVER_TAG = 0x4543


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """This rank's view of a process group; a process on its own is rank 0 of 1."""

    rank: int
    num_ranks: int
    group: ProcessGroup | None
    """Group that connects the ranks; None for the default one, or for a process on its own."""
    timeout_s: float
    """Longest time that one exchange may take."""

    @classmethod
    def open(cls, group: ProcessGroup | None, *, timeout_s: float) -> "Link":
        """Describe `group`, or the default one, or a process that has none.

        Raises:
            ValueError: If `timeout_s` is not positive.
        """
        if not timeout_s > 0:
            raise ValueError(f"timeout_s must be > 0, got {timeout_s}")
        alone = group is None and not dist.is_initialized()
        return cls(
            rank=0 if alone else dist.get_rank(group),
            num_ranks=1 if alone else dist.get_world_size(group),
            group=group,
            timeout_s=timeout_s,
        )

    def exchange(
        self, outgoing: Sequence[UInt8[Tensor, "_"]], incoming_bytes: Sequence[int]
    ) -> list[UInt8[Tensor, "_"]]:
        """Send one buffer to every rank and return the one from every rank; all ranks call it.

        Args:
            outgoing: Buffer for each rank, this one included; may be empty.
            incoming_bytes: Size of the buffer that each rank sends here.

        Raises:
            RuntimeError: If a rank is gone or does not take part within `timeout_s`; it is named,
                for which every rank waits another 2 s at most.
        """
        if self.num_ranks == 1 or outgoing[0].device.type != "cpu":
            return self.start(outgoing, incoming_bytes).wait()
        received = outgoing[0].new_empty(sum(incoming_bytes)).split(list(incoming_bytes))
        try:
            ring_exchange(
                outgoing, received, rank=self.rank, group=self.group, timeout_s=self.timeout_s
            )
        except RuntimeError as error:
            raise self._broken() from error
        return list(received)

    def start(
        self, outgoing: Sequence[UInt8[Tensor, "_"]], incoming_bytes: Sequence[int]
    ) -> "Exchange":
        """Begin an exchange; all ranks start the same ones in the same order.

        Any number may be under way. On the CPU an empty buffer is not sent, so that whom it is
        from is not missed.

        Raises:
            RuntimeError: If a rank is known to be gone already.
        """
        sizes = list(incoming_bytes)
        received = outgoing[0].new_empty(sum(sizes))
        try:
            if self.num_ranks == 1:
                received.copy_(outgoing[0])
                works = []
            elif received.device.type == "cpu":
                works = self._start_messages(outgoing, received.split(sizes))
            else:
                sent_sizes = [buffer.shape[0] for buffer in outgoing]
                work = dist.all_to_all_single(
                    received, torch.cat(list(outgoing)), sizes, sent_sizes, self.group, True
                )
                works = [work]
        except RuntimeError as error:
            raise self._broken() from error
        return Exchange(link=self, works=tuple(works), parts=tuple(received.split(sizes)))

    def _start_messages(
        self, outgoing: Sequence[Tensor], received: Sequence[Tensor]
    ) -> list[dist.Work | None]:
        """Begin a message for every buffer, as collectives of gloo run two at a time at most."""
        received[self.rank].copy_(outgoing[self.rank])
        others = [rank for rank in range(self.num_ranks) if rank != self.rank]
        works = [
            dist.irecv(received[rank], group=self.group, group_src=rank, tag=_EXCHANGE_TAG)
            for rank in others
            if received[rank].shape[0]
        ]
        return works + [
            dist.isend(outgoing[rank], group=self.group, group_dst=rank, tag=_EXCHANGE_TAG)
            for rank in others
            if outgoing[rank].shape[0]
        ]

    def sum(self, values: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
        """Add up a tensor over all ranks, which call it together.

        Raises:
            RuntimeError: As for `exchange`.
        """
        total = values.clone()
        if self.num_ranks > 1:
            try:
                work = dist.all_reduce(total, group=self.group, async_op=True)
            except RuntimeError as error:
                raise self._broken() from error
            self.wait([work])
        return total

    def wait(self, works: Sequence[dist.Work | None]) -> None:
        """Wait until all of this is done, `timeout_s` at most.

        Raises:
            RuntimeError: As for `exchange`.
        """
        deadline_s = time.monotonic() + self.timeout_s
        try:
            for work in works:
                assert work is not None
                # At least a millisecond, as 0 means no limit.
                work.wait(timedelta(seconds=max(0.001, deadline_s - time.monotonic())))
        except RuntimeError as error:
            raise self._broken() from error

    def broken(self, what: str) -> RuntimeError:
        """Leave a group whose exchange has failed; return the error that names who is gone.

        Args:
            what: Has failed.
        """
        absent = "there are no others"
        group = self.group or dist.group.WORLD
        if self.num_ranks > 1 and group is not None:
            self._hang_up(group)
            absent = absent_ranks(group.get_group_store(), rank=self.rank, num_ranks=self.num_ranks)
        return RuntimeError(
            f"rank {self.rank}: {what} failed or took longer than {self.timeout_s} s: {absent}; "
            "the process group cannot be used further"
        )

    def _broken(self) -> RuntimeError:
        return self.broken(f"exchange with {self.num_ranks} ranks")

    def _hang_up(self, group: ProcessGroup) -> None:
        """Close the connections, so that nobody waits for a rank that has given up.

        Gloo does it when a message is late, and has no other way to be told to.
        """
        if "cpu:gloo" not in dist.get_backend_config(group):
            return
        never = torch.empty(1, dtype=torch.uint8)
        for rank in range(self.num_ranks):
            if rank != self.rank:
                with suppress(RuntimeError):
                    work = dist.irecv(never, group=group, group_src=rank, tag=_NEVER_TAG)
                    assert work is not None
                    work.wait(timedelta(milliseconds=1))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Buffers under way between all ranks."""

    link: Link
    works: tuple[dist.Work | None, ...]
    """Keep what is sent until it has gone."""
    parts: tuple[UInt8[Tensor, "_"], ...]
    """Memory for the buffer from each rank."""

    def wait(self) -> list[UInt8[Tensor, "_"]]:
        """Return the buffer from every rank.

        Raises:
            RuntimeError: As for `Link.exchange`.
        """
        self.link.wait(self.works)
        return list(self.parts)
