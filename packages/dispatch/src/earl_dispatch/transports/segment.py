"""Memory that processes of one host share and that has no name in the file system."""

import os
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

ALIGNMENT_BYTES = 64
_NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A file in memory (memfd_create(2)): gone when the last process has let go of it.

    It never has a name that could stay behind, however its processes end, and no mounted file
    system limits its size.
    """

    pid: int
    """Process that made it."""
    descriptor: int
    """Number of the open file in that process."""
    token: str
    """Tells it from every other, 32 characters: numbers of processes and files are used again."""
    num_bytes: int

    @classmethod
    @contextmanager
    def created(cls, num_bytes: int) -> Generator["Segment", None, None]:
        """Make memory that others may open within the context; maps of it outlive that."""
        token = uuid.uuid4().hex
        descriptor = os.memfd_create(f"earl-{token}")
        try:
            os.ftruncate(descriptor, max(num_bytes, 1))
            yield cls(pid=os.getpid(), descriptor=descriptor, token=token, num_bytes=num_bytes)
        finally:
            os.close(descriptor)

    def encode(self) -> bytes:
        """Return what another process needs to open it, the same number of bytes for all."""
        numbers = (self.pid, self.descriptor, self.num_bytes)
        return b"".join(n.to_bytes(_NUMBER_BYTES, "big") for n in numbers) + self.token.encode()

    @classmethod
    def decode(cls, encoded: bytes) -> "Segment":
        """Return what `encode` was called on."""
        words = [encoded[i : i + _NUMBER_BYTES] for i in range(0, 3 * _NUMBER_BYTES, _NUMBER_BYTES)]
        pid, descriptor, num_bytes = (int.from_bytes(word, "big") for word in words)
        token = encoded[3 * _NUMBER_BYTES :].decode()
        return cls(pid=pid, descriptor=descriptor, token=token, num_bytes=num_bytes)

    def map(self) -> UInt8[Tensor, "bytes"]:
        """Return the memory, in whichever process of the host.

        Raises:
            OSError: If there is no such memory here, or it may not be opened.
        """
        path = Path(f"/proc/{self.pid}/fd/{self.descriptor}")
        if self.token not in str(path.readlink()):
            raise FileNotFoundError(f"{path} is not segment {self.token}")
        descriptor = os.open(path, os.O_RDWR)
        try:
            # The tensor keeps the map, and no open file.
            return torch.from_file(
                f"/proc/self/fd/{descriptor}",
                shared=True,
                size=max(self.num_bytes, 1),
                dtype=torch.uint8,
            )
        finally:
            os.close(descriptor)


def cut(memory: UInt8[Tensor, "bytes"], sizes: Sequence[tuple[torch.dtype, int]]) -> list[Tensor]:
    """Cut memory into tensors of so many elements, each of which begins at a whole cache line."""
    parts: list[Tensor] = []
    start = 0
    for dtype, size in sizes:
        parts.append(memory[start : start + size * dtype.itemsize].view(dtype))
        start += _padded_bytes(dtype, size)
    return parts


def cut_bytes(sizes: Sequence[tuple[torch.dtype, int]]) -> int:
    """Return how much memory `cut` needs."""
    return sum(_padded_bytes(dtype, size) for dtype, size in sizes)


def _padded_bytes(dtype: torch.dtype, size: int) -> int:
    return -(-size * dtype.itemsize // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
