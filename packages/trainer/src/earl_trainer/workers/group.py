"""Processes that do the same at the same time, and what they say to one another."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Members of a process group, who all call the same methods in the same order.

    One process alone is a group too, and needs no messages.
    """

    rank: int = 0
    """Place of this process among the members."""
    size: int = 1
    process_group: ProcessGroup | None = None
    """None for one process alone."""

    def all_gather(self, value: T) -> list[T]:
        """Return the value of every member, in the order of their ranks.

        Values are pickled: facts of episodes and rows, never their tokens.
        """
        if self.process_group is None:
            return [value]
        values: list[Any] = [None] * self.size  # Any: filled in by the call below
        dist.all_gather_object(values, value, group=self.process_group)
        return values

    def gather(self, value: T) -> list[T]:
        """Return the value of every member on the first one, and this member's own elsewhere."""
        if self.process_group is None:
            return [value]
        values: list[Any] | None = [None] * self.size if self.rank == 0 else None
        dist.gather_object(value, values, group=self.process_group, group_dst=0)
        return [value] if values is None else values

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over the members, in place and bit for bit the same on all.

        Args:
            tensor: Of one shape, dtype and kind of device on all members.
        """
        if self.process_group is not None:
            dist.all_reduce(tensor, group=self.process_group)

    def from_first(self, make: Callable[[], T]) -> T:
        """Let the first member alone make a value, and return it on all of them."""
        if self.process_group is None:
            return make()
        values: list[Any] = [pickle.dumps(make()) if self.rank == 0 else None]
        dist.broadcast_object_list(values, group=self.process_group, group_src=0)
        return pickle.loads(values[0])

    @torch.no_grad()
    def copy_from_first(self, tensor: Tensor) -> None:
        """Overwrite a tensor with the first member's, in place."""
        if self.process_group is not None:
            dist.broadcast(tensor, group=self.process_group, group_src=0)


ALONE = Group()
