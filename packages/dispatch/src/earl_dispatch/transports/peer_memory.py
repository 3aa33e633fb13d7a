"""Memory of other processes of the host, read in place: process_vm_readv(2)."""

import ctypes
import errno
import os
import struct
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from earl_dispatch.ragged import Run

_TOKEN_BYTES = 16
_MAX_RUNS = 1024
"""IOV_MAX: pieces that the kernel takes at a time."""
_MAX_BYTES = 1 << 30
"""The kernel takes less than 2 GiB at a time."""
_HUGE_PAGE_BYTES = 1 << 21
_MADV_HUGEPAGE = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Where a process has tensors that others may read."""

    pid: int
    token_address: int
    token: bytes
    """Tells whether it is this process, and may be read, before anything else is."""
    addresses: tuple[int, ...]
    """First byte of each tensor."""

    @classmethod
    def of_this_process(cls, tensors: Sequence[Tensor], token: Tensor) -> "Peer":
        """Describe contiguous tensors, for as long as they and the `new_token` are kept."""
        return cls(
            pid=os.getpid(),
            token_address=token.data_ptr(),
            token=bytes(token.tolist()),
            addresses=tuple(tensor.data_ptr() for tensor in tensors),
        )

    def encode(self) -> bytes:
        """Return what another process needs, the same number of bytes for as many tensors."""
        return self.token + struct.pack(
            f"<{2 + len(self.addresses)}Q", self.pid, self.token_address, *self.addresses
        )

    @classmethod
    def decode(cls, encoded: bytes) -> "Peer":
        """Return what `encode` was called on."""
        numbers = encoded[_TOKEN_BYTES:]
        pid, token_address, *addresses = struct.unpack(f"<{len(numbers) // 8}Q", numbers)
        return cls(
            pid=pid,
            token_address=token_address,
            token=encoded[:_TOKEN_BYTES],
            addresses=tuple(addresses),
        )

    def can_be_read(self) -> bool:
        """Try whether this process may read the other, and whether it is the one."""
        token = torch.zeros(_TOKEN_BYTES, dtype=torch.uint8)
        try:
            read_memory(self.pid, [(token.data_ptr(), self.token_address, _TOKEN_BYTES)])
        except OSError:
            return False
        return bytes(token.tolist()) == self.token


def new_token() -> Tensor:
    """Return bytes that no other process has."""
    return torch.frombuffer(bytearray(uuid.uuid4().bytes), dtype=torch.uint8)


def read_memory(pid: int, runs: Sequence[Run]) -> None:
    """Copy bytes of another process to this one.

    Args:
        pid: Of the process.
        runs: Own address, address in the other process, and bytes of each piece.

    Raises:
        OSError: If there is no such process or memory, or the kernel does not let it be read.
    """
    for batch in _batches([piece for run in runs for piece in _split(run)]):
        _read(pid, batch)


def empty_tensor(dtype: torch.dtype, size: int) -> Tensor:
    """Return new memory that asks for huge pages: the first touch of others costs more than a copy.

    Without effect where the system has none to give.
    """
    tensor = torch.empty(size, dtype=dtype)
    first = -(-tensor.data_ptr() // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
    num_bytes = tensor.data_ptr() + tensor.nbytes - first
    if num_bytes >= _HUGE_PAGE_BYTES:
        ctypes.CDLL(None).madvise(
            ctypes.c_void_p(first), ctypes.c_size_t(num_bytes), ctypes.c_int(_MADV_HUGEPAGE)
        )
    return tensor


def _split(run: Run) -> list[Run]:
    to, start, num_bytes = run
    return [
        (to + done, start + done, min(_MAX_BYTES, num_bytes - done))
        for done in range(0, num_bytes, _MAX_BYTES)
    ]


def _batches(pieces: Sequence[Run]) -> Iterator[list[Run]]:
    batch: list[Run] = []
    size = 0
    for piece in pieces:
        if batch and (len(batch) == _MAX_RUNS or size + piece[2] > _MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(piece)
        size += piece[2]
    if batch:
        yield batch


def _read(pid: int, pieces: Sequence[Run]) -> None:
    # Arrays of struct iovec: address and size, 8 bytes each.
    here = torch.tensor([(to, size) for to, _, size in pieces], dtype=torch.int64)
    there = torch.tensor([(start, size) for _, start, size in pieces], dtype=torch.int64)
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "process_vm_readv"):
        raise OSError(errno.ENOSYS, "the C library has no process_vm_readv")
    read = libc.process_vm_readv
    read.restype = ctypes.c_ssize_t
    count = ctypes.c_ulong(len(pieces))
    num_read = read(
        ctypes.c_int(pid),
        ctypes.c_void_p(here.data_ptr()),
        count,
        ctypes.c_void_p(there.data_ptr()),
        count,
        ctypes.c_ulong(0),
    )
    if num_read != sum(size for _, _, size in pieces):
        number = ctypes.get_errno() if num_read < 0 else errno.EFAULT
        raise OSError(number, f"cannot read process {pid}: {os.strerror(number)}")
