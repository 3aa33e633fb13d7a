"""A model's weights as one row of bytes, which travels in pieces of equal length."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import final

import torch
from jaxtyping import UInt8
from torch import Tensor

Parts = list[UInt8[Tensor, "_"]]
"""The bytes of every parameter."""

_ALIGNED_BYTES = 16
"""Every parameter begins at a multiple of it, as the elements of no dtype are larger."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FlatLayout:
    """Where each parameter lies in the row."""

    sizes_bytes: tuple[int, ...]

    @classmethod
    def of(cls, parameters: Sequence[Tensor]) -> "FlatLayout":
        """Lay parameters one after the other."""
        return cls(sizes_bytes=tuple(parameter.nbytes for parameter in parameters))

    @property
    def offsets_bytes(self) -> list[int]:
        """Where each parameter begins, and the end of the row."""
        padded = (-(-size // _ALIGNED_BYTES) * _ALIGNED_BYTES for size in self.sizes_bytes)
        return [0, *accumulate(padded)]

    def buckets(self, bucket_bytes: int) -> list[tuple[int, int]]:
        """Return begin and end of the pieces that the row travels in."""
        num_bytes = self.offsets_bytes[-1]
        return [
            (begin, min(begin + bucket_bytes, num_bytes))
            for begin in range(0, num_bytes, bucket_bytes)
        ]

    def gather(
        self, parameters: Sequence[Tensor], begin: int, into: UInt8[Tensor, " bytes"]
    ) -> None:
        """Copy the part of the row that begins there out of the parameters."""
        for place, first, last in self._overlaps(begin, begin + len(into)):
            source = parameters[place].detach().contiguous().view(-1).view(torch.uint8)
            offset = self.offsets_bytes[place]
            into[first - begin : last - begin].copy_(source[first - offset : last - offset])

    def split(self, row: UInt8[Tensor, " bytes"]) -> Parts:
        """Return each parameter's bytes, which stay where they are in the row."""
        return [
            row[offset : offset + size]
            for offset, size in zip(self.offsets_bytes, self.sizes_bytes, strict=False)
        ]

    def _overlaps(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the parameters that have bytes between two places, and where these are."""
        offsets = self.offsets_bytes
        for place in range(max(0, bisect_right(offsets, begin) - 1), len(self.sizes_bytes)):
            if offsets[place] >= end:
                return
            first = max(begin, offsets[place])
            last = min(end, offsets[place] + self.sizes_bytes[place])
            if first < last:
                yield place, first, last
