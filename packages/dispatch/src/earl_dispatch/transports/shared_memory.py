"""Ranks of one host: buffers are written once to memory that the receiver reads from."""

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from earl_dispatch.columns import Columns
from earl_dispatch.execution import Execution
from earl_dispatch.link import Link
from earl_dispatch.plan import TransferPlan

_FOLDER = Path("/dev/shm")
_ALIGNMENT = 64


def shared_memory(plan: TransferPlan, columns: Columns, link: Link) -> Columns:
    """Let every receiver read its buffers straight from the sender's memory.

    Only the segments' names, and a word that they could be opened, go over the link.

    Raises:
        ValueError: On all ranks, if some rank cannot open the memory of another: they are not on
            one host, or do not share `/dev/shm`.
    """
    execution = Execution(plan, columns, rank=link.rank)
    for number in range(len(plan.rounds)):
        sizes = [0] * link.num_ranks
        for transfer in plan.rounds[number]:
            if transfer.source_rank == link.rank:
                sizes[transfer.target_rank] += plan.bytes_of(transfer)
        with _Segment.create(sizes) as segment:
            execution.outgoing(number, lambda rank, num_bytes: segment.part(rank, num_bytes))
            incoming = execution.incoming_bytes(number)
            views = _open(segment, incoming, link)
            execution.accept(number, views)
            # Nobody gives its memory back before all have read.
            link.exchange([_word(True)] * link.num_ranks, [1] * link.num_ranks)
    return execution.result()


@final
class _Segment:
    """One rank's buffers of a round, one for each receiver, in a file in memory."""

    def __init__(self, path: Path, starts: list[int], memory: Tensor) -> None:
        self.path = path
        self._starts = starts
        self._memory = memory

    @classmethod
    @contextmanager
    def create(cls, sizes: list[int]) -> Generator["_Segment", None, None]:
        path = _FOLDER / f"earl-{uuid.uuid4().hex}"
        starts = [0]
        for size in sizes:
            starts.append(starts[-1] + -(-size // _ALIGNMENT) * _ALIGNMENT)
        num_bytes = max(starts[-1], 1)
        try:
            memory = torch.from_file(str(path), shared=True, size=num_bytes, dtype=torch.uint8)
            yield cls(path, starts, memory)
        finally:
            path.unlink(missing_ok=True)

    def part(self, rank: int, num_bytes: int) -> Tensor:
        return self._memory[self._starts[rank] : self._starts[rank] + num_bytes]

    def label(self, rank: int) -> Tensor:
        """Name the buffer for a rank: where it starts, and the file."""
        text = f"{self._starts[rank]:020d}{self.path.name}"
        return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


def _open(segment: _Segment, incoming: dict[int, int], link: Link) -> dict[int, Tensor]:
    labels = [segment.label(rank) for rank in range(link.num_ranks)]
    received = link.exchange(labels, [len(label) for label in labels])
    texts = {rank: bytes(received[rank].tolist()).decode() for rank in incoming}
    files = {rank: (_FOLDER / text[20:], int(text[:20])) for rank, text in texts.items()}
    found = all(path.exists() for path, _ in files.values())
    words = link.exchange([_word(found)] * link.num_ranks, [1] * link.num_ranks)
    blind = [rank for rank, word in enumerate(words) if not int(word)]
    if blind:
        raise ValueError(
            f"transport 'shared_memory' serves ranks of one host, but rank {blind[0]} cannot open "
            "the memory of the others"
        )
    return {
        rank: torch.from_file(
            str(path), shared=True, size=start + incoming[rank], dtype=torch.uint8
        )[start:]
        for rank, (path, start) in files.items()
    }


def _word(value: bool) -> Tensor:
    return torch.tensor([value], dtype=torch.uint8)
