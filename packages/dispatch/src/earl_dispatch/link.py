"""The connection between ranks that transports send bytes over."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from jaxtyping import UInt8
from torch import Tensor
from torch.distributed import ProcessGroup


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
            RuntimeError: If a rank is gone or does not take part within `timeout_s`.
        """
        if self.num_ranks == 1:
            return list(outgoing)
        sent = torch.cat(list(outgoing))
        received = sent.new_empty(sum(incoming_bytes))
        try:
            work = dist.all_to_all_single(
                received,
                sent,
                output_split_sizes=list(incoming_bytes),
                input_split_sizes=[buffer.shape[0] for buffer in outgoing],
                group=self.group,
                async_op=True,
            )
            assert work is not None
            work.wait(timedelta(seconds=self.timeout_s))
        except RuntimeError as error:
            raise RuntimeError(
                f"rank {self.rank}: exchange with {self.num_ranks} ranks failed or took longer "
                f"than {self.timeout_s} s; the process group cannot be used further"
            ) from error
        return list(received.split(list(incoming_bytes)))
