"""Processes that do the same at the same time, and what they say to one another."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from earl_trainer.types import RunFailedError

T = TypeVar("T")


class LostWorkerError(RunFailedError):
    """Another worker is gone, or has not taken part in time."""


@contextmanager
def among_workers() -> Generator[None]:
    """Turn what an exchange raises, when someone is gone, into a `LostWorkerError`."""
    try:
        yield
    except RuntimeError as error:
        raise LostWorkerError(f"a worker is gone: {' '.join(str(error).split())}") from error


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Members of a process group, who all call the same methods in the same order.

    One process alone is a group too, and needs no messages. All methods raise `LostWorkerError`
    where a member is gone.
    """

    rank: int = 0
    """Place of this process among the members."""
    size: int = 1
    process_group: ProcessGroup | None = None
    """None for one process alone."""

    def all_gather(self, value: T) -> list[T]:
        """Return the value of every member, in the order of their ranks.

        Values are pickled: facts of episodes and rows, and no more than a few of their tokens.
        """
        if self.process_group is None:
            return [value]
        values: list[Any] = [None] * self.size  # Any: filled in by the call below
        with among_workers():
            dist.all_gather_object(values, value, group=self.process_group)
        return values

    def gather(self, value: T) -> list[T]:
        """Return the value of every member on the first one, and this member's own elsewhere."""
        if self.process_group is None:
            return [value]
        values: list[Any] | None = [None] * self.size if self.rank == 0 else None
        with among_workers():
            dist.gather_object(value, values, group=self.process_group, group_dst=0)
        return [value] if values is None else values

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over the members, in place and bit for bit the same on all.

        Args:
            tensor: Of one shape, dtype and kind of device on all members.
        """
        if self.process_group is not None:
            with among_workers():
                dist.all_reduce(tensor, group=self.process_group)

    def from_first(self, make: Callable[[], T]) -> T:
        """Let the first member alone make a value, and return it on all of them."""
        if self.process_group is None:
            return make()
        values: list[Any] = [make() if self.rank == 0 else None]
        with among_workers():
            dist.broadcast_object_list(values, group=self.process_group, group_src=0)
        return values[0]

    @torch.no_grad()
    def copy_from_first(self, tensor: Tensor) -> None:
        """Overwrite a tensor with the first member's, in place, whatever its dtype."""
        if self.process_group is None:
            return
        flat = tensor.contiguous().view(-1)
        with among_workers():
            dist.broadcast(flat.view(torch.uint8), group=self.process_group, group_src=0)
        tensor.copy_(flat.view(tensor.shape))


ALONE = Group()
