"""The sizes of rows that are spread over ranks."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from earl_dispatch.agreement import Claim, describe_schema, require_agreement
from earl_dispatch.columns import Columns
from earl_dispatch.layout import Layout
from earl_dispatch.link import Link
from earl_dispatch.sizes import RowSizes


def share_sizes(
    columns: Columns,
    source: Layout,
    *,
    group: ProcessGroup | None = None,
    problem: str = "",
    timeout_s: float = 300.0,
) -> RowSizes:
    """Tell all ranks the lengths and turns of all rows, which a plan is made from.

    All ranks call it together. It takes 16 bytes per row and rank.

    Args:
        columns: Rows of this rank.
        source: Where the rows are.
        group: Ranks that take part; the default group if None.
        problem: What the caller finds wrong on this rank, for all ranks to be refused with.
        timeout_s: Longest time to wait for the others in each exchange.

    Raises:
        ValueError: On all ranks, if one has a problem or not the rows that `source` gives it, or if
            they differ in columns or layout.
        RuntimeError: If a rank is gone or does not take part within `timeout_s`.
    """
    link = Link.open(group, timeout_s=timeout_s)
    num_rows = len(source.rows_of(link.rank))
    if columns.num_rows != num_rows and not problem:
        problem = f"rank {link.rank} passes {columns.num_rows} rows, the source gives it {num_rows}"
    claim = Claim.of(
        source, transport="", columns=describe_schema(columns.schema()), problem=problem
    )
    device = columns.lengths.device
    require_agreement(claim, link, device=device)
    speakers = {
        source.replicas(number, chunk)[0]
        for number in range(len(source.groups))
        for chunk in range(source.num_chunks)
    }
    counts = torch.stack([columns.lengths, columns.turn_counts()]).flatten().view(torch.uint8)
    said = counts if link.rank in speakers else counts[:0]
    num_rows_of = {rank: len(source.rows_of(rank)) for rank in speakers}
    received = link.exchange(
        [said] * link.num_ranks,
        [2 * 8 * num_rows_of.get(rank, 0) for rank in range(link.num_ranks)],
    )
    lengths, turns = _combine(source, {rank: received[rank] for rank in speakers})
    return RowSizes.of(columns.schema(), lengths, turns)


def _combine(source: Layout, said: Mapping[int, Tensor]) -> tuple[list[int], list[int]]:
    """Add up the chunks of each row: its tokens, and its turns, which each chunk has in full."""
    lengths, turns = [0] * source.num_rows, [0] * source.num_rows
    for rank, buffer in said.items():
        # Parts of a buffer need not begin where int64 may.
        words = buffer.clone().view(torch.int64).view(2, -1).tolist()
        for row, num_tokens, num_turns in zip(source.rows_of(rank), *words, strict=True):
            lengths[row] += num_tokens
            turns[row] = num_turns
    return lengths, turns
