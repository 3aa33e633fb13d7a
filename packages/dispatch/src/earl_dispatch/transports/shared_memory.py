"""Ranks of one host: buffers are written once to memory that the receiver reads from."""

import uuid
from collections import defaultdict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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

    Every rank has one segment, as large as what it sends in its largest round, and writes to it
    again in every round: memory that is new to a process costs more than a copy. Only the segments'
    names, and words that one may go on, go over the link.

    Raises:
        ValueError: On all ranks, if some rank cannot open the memory of another: they are not on
            one host, or do not share `/dev/shm`.
    """
    execution = Execution(plan, columns, rank=link.rank)
    if not plan.rounds:
        return execution.result()
    places = [_places(plan, number) for number in range(len(plan.rounds))]
    sizes = [max(p.sizes.get(rank, 0) for p in places) for rank in range(link.num_ranks)]
    with _created(sizes[link.rank]) as (path, memory):
        segments = _open(path, sizes, link)
        for number, place in enumerate(places):

            def allocate(rank: int, num_bytes: int, starts: Starts = place.starts) -> Tensor:
                return memory[starts[link.rank, rank] :][:num_bytes]

            execution.outgoing(number, allocate)
            _meet(link)
            incoming = execution.incoming_bytes(number)
            execution.accept(
                number,
                {
                    rank: segments[rank][place.starts[rank, link.rank] :][:num_bytes]
                    for rank, num_bytes in incoming.items()
                },
            )
            # Nobody writes again, or gives its memory back, before all have read.
            _meet(link)
    return execution.result()


Starts = Mapping[tuple[int, int], int]
"""(source rank, target rank) -> where the buffer begins in the source's segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Where the buffers of a round stand; every rank knows it of all."""

    starts: Starts
    sizes: Mapping[int, int]
    """Rank -> bytes that its buffers take."""


def _places(plan: TransferPlan, number: int) -> _Places:
    lengths = defaultdict[tuple[int, int], int](int)
    for transfer in plan.rounds[number]:
        lengths[transfer.source_rank, transfer.target_rank] += plan.bytes_of(transfer)
    starts: dict[tuple[int, int], int] = {}
    sizes = defaultdict[int, int](int)
    for (source, target), num_bytes in sorted(lengths.items()):
        starts[source, target] = sizes[source]
        sizes[source] += -(-num_bytes // _ALIGNMENT) * _ALIGNMENT
    return _Places(starts=starts, sizes=sizes)


@contextmanager
def _created(num_bytes: int) -> Generator[tuple[Path, Tensor], None, None]:
    """Make a segment: a file in memory, which is gone when the last process lets go of it."""
    path = _FOLDER / f"earl-{uuid.uuid4().hex}"
    try:
        yield path, _map(path, num_bytes)
    finally:
        path.unlink(missing_ok=True)


def _open(path: Path, sizes: list[int], link: Link) -> list[Tensor]:
    """Open the segments of all ranks."""
    name = torch.frombuffer(bytearray(path.name.encode()), dtype=torch.uint8)
    names = link.exchange([name] * link.num_ranks, [len(name)] * link.num_ranks)
    paths = [_FOLDER / bytes(name.tolist()).decode() for name in names]
    found = torch.tensor([all(path.exists() for path in paths)], dtype=torch.uint8)
    words = link.exchange([found] * link.num_ranks, [1] * link.num_ranks)
    blind = [rank for rank, word in enumerate(words) if not int(word)]
    if blind:
        raise ValueError(
            f"transport 'shared_memory' serves ranks of one host, but rank {blind[0]} cannot open "
            "the memory of the others"
        )
    return [_map(path, num_bytes) for path, num_bytes in zip(paths, sizes, strict=True)]


def _map(path: Path, num_bytes: int) -> Tensor:
    return torch.from_file(str(path), shared=True, size=max(num_bytes, 1), dtype=torch.uint8)


def _meet(link: Link) -> None:
    word = torch.ones(1, dtype=torch.uint8)
    link.exchange([word] * link.num_ranks, [1] * link.num_ranks)
