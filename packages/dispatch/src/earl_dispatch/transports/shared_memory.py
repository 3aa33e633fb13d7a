"""Ranks of one host: every row is copied once, from the sender's columns to the receiver's."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from earl_dispatch.columns import Columns
from earl_dispatch.execution import Execution
from earl_dispatch.link import Link
from earl_dispatch.plan import TransferPlan
from earl_dispatch.ragged import Run
from earl_dispatch.transports.peer_memory import Peer, empty_tensor, new_token, read_memory
from earl_dispatch.transports.segment import Segment, cut, cut_bytes
from earl_dispatch.wire import byte_runs


def shared_memory(plan: TransferPlan, columns: Columns, link: Link) -> Columns:
    """Copy rows from one rank's memory to another's.

    Every receiver reads the senders' columns where they are. Where the system does not let one
    process read another (containers without that right, Linux's Yama), every sender writes to
    results that stand in memory they share for as long as it takes. Either way there are no
    buffers, so that nothing takes memory beside the result, and nothing has a name that a killed
    rank could leave behind. Only addresses, and words that one may go on, go over the link. Columns
    of another device pass through the host's memory.

    Raises:
        ValueError: On all ranks, if some rank can do neither: they are not on one host, do not see
            one another's processes, or run as different users.
    """
    device = columns.lengths.device
    here = _map(columns, lambda column: column.cpu().contiguous())
    execution = Execution(plan, here, rank=link.rank)
    if plan.rounds and not _read_columns(plan, here, execution, link):
        _write_results(plan, execution, link)
    return _map(execution.result(), lambda column: column.to(device))


def _read_columns(plan: TransferPlan, columns: Columns, execution: Execution, link: Link) -> bool:
    """Let every rank read what it receives, if all of them may; return whether that is so."""
    results = [empty_tensor(dtype, size) for dtype, size in execution.needed_sizes(link.rank)]
    execution.place(link.rank, results)
    schema, token = columns.schema(), new_token()
    tensors = [columns.per_token[name] for name, _ in schema.per_token]
    tensors += [columns.per_row[name] for name, _ in schema.per_row]
    tensors += [columns.per_turn[name] for name, _ in schema.per_turn]
    own = Peer.of_this_process([*tensors, *results], token)
    peers = [Peer.decode(encoded) for encoded in _share(own.encode(), link)]
    senders = {t.source_rank for t in plan.transfers if t.target_rank == link.rank}
    # Others read this rank's token until all have answered.
    if not all(_answers(all(peers[rank].can_be_read() for rank in senders), link)):
        return False
    for number in range(len(plan.rounds)):
        copied = True
        for arrival in execution.arrivals(number):
            # It comes from the sender's columns, or from what it has received itself.
            first = len(tensors) if arrival.passed_on else 0
            addresses = peers[arrival.sender].addresses[first : first + len(tensors)]
            runs = byte_runs(schema, arrival.there, arrival.here)
            copied = copied and _read(peers[arrival.sender].pid, addresses, results, runs)
        # Nobody reads what others do not have yet, or gives back what others still read.
        failed = [rank for rank, answer in enumerate(_answers(copied, link)) if not answer]
        if failed:
            raise RuntimeError(f"rank {failed[0]} cannot read the memory of others any more")
    return True


def _read(
    pid: int, addresses: Sequence[int], results: Sequence[Tensor], runs: Sequence[Sequence[Run]]
) -> bool:
    """Read runs of every column; return whether the other process was still there."""
    pieces = [
        (result.data_ptr() + to, address + start, num_bytes)
        for address, result, column_runs in zip(addresses, results, runs, strict=False)
        for to, start, num_bytes in column_runs
    ]
    try:
        read_memory(pid, pieces)
    except OSError:
        return False
    return True


def _write_results(plan: TransferPlan, execution: Execution, link: Link) -> None:
    """Let every rank write what it sends to the receivers' results, in memory that both see."""
    receivers = {t.target_rank for t in plan.transfers if t.source_rank == link.rank}
    with Segment.created(cut_bytes(execution.needed_sizes(link.rank))) as own:
        segments = [Segment.decode(encoded) for encoded in _share(own.encode(), link)]
        try:
            for rank in {link.rank, *receivers}:
                memory = segments[rank].map()
                execution.place(rank, cut(memory, execution.needed_sizes(rank)))
            answers = _answers(True, link)
        except OSError:
            answers = _answers(False, link)
    blind = [rank for rank, found in enumerate(answers) if not found]
    if blind:
        raise ValueError(
            "transport 'shared_memory' serves processes of one host and user, but rank "
            f"{blind[0]} cannot open the memory of another"
        )
    for number in range(len(plan.rounds)):
        execution.deliver(number)
        # Nobody reads what others have not written yet.
        _answers(True, link)


def _share(encoded: bytes, link: Link) -> list[bytes]:
    """Send one text to all ranks and return the text of each, of the same size."""
    word = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
    words = link.exchange([word] * link.num_ranks, [len(word)] * link.num_ranks)
    return [bytes(word.tolist()) for word in words]


def _answers(mine: bool, link: Link) -> Sequence[bool]:
    """Wait for every rank, and return what each says."""
    return [word == b"\1" for word in _share(bytes([mine]), link)]


def _map(columns: Columns, change: Callable[[Tensor], Tensor]) -> Columns:
    return replace(
        columns,
        lengths=change(columns.lengths),
        per_token={name: change(column) for name, column in columns.per_token.items()},
        per_row={name: change(column) for name, column in columns.per_row.items()},
        turns=None if columns.turns is None else change(columns.turns),
        per_turn={name: change(column) for name, column in columns.per_turn.items()},
    )
