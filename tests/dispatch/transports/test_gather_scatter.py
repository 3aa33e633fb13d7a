from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from earl_dispatch import Layout, RowSizes, Schema, plan_transfer
from earl_dispatch.chunked import limit_buffers
from earl_dispatch.link import Link
from earl_dispatch.testing import assert_same_bits, random_columns, run_ranks
from earl_dispatch.transports.gather_scatter import (
    NUM_PARTS,
    _equal_parts,
    gather_scatter,
    gather_scatter_pipelined,
)

LENGTHS = (3, 0, 5, 1)
REPLICATED = Layout(owners=(0, 0, 1, 1), groups=((2, 0), (1,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingLink(Link):
    """Keeps the number of bytes sent to each rank in `sizes`."""

    sizes: list[list[int]]

    def exchange(self, outgoing, incoming_bytes):
        self.sizes.append([part.shape[0] for part in outgoing])
        return Link.exchange(self, outgoing, incoming_bytes)

    def start(self, outgoing, incoming_bytes):
        self.sizes.append([part.shape[0] for part in outgoing])
        return Link.start(self, outgoing, incoming_bytes)


def make_sizes(batch) -> RowSizes:
    return RowSizes.of_columns(batch)


def send_and_record() -> list[list[int]]:
    link = RecordingLink(rank=dist.get_rank(), num_ranks=3, group=None, timeout_s=20.0, sizes=[])
    batch = random_columns(LENGTHS, torch.Generator().manual_seed(3))
    plan = plan_transfer(REPLICATED, REPLICATED, sizes=make_sizes(batch))
    held = batch.select(REPLICATED.rows_of(link.rank))
    assert_same_bits(gather_scatter(plan, held, link), held)
    return link.sizes


def test_one_of_each_group_sends_all_to_rank_0_which_sends_every_replica_its_rows():
    sizes = make_sizes(random_columns(LENGTHS, torch.Generator().manual_seed(3)))
    row_bytes = [sizes.row_bytes(row) for row in range(4)]
    first, second = sum(row_bytes[:2]), sum(row_bytes[2:])
    # Rank 0 is one of the replicas that hold the first rows.
    assert run_ranks(3, send_and_record) == [
        [[0, 0, 0], [0, second, first]],
        [[second, 0, 0], [0, 0, 0]],
        [[0, 0, 0], [0, 0, 0]],
    ]


LONG = Layout.contiguous(num_rows=40, num_ranks=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedLink(Link):
    """Keeps how many exchanges are under way each time that one begins or is done in `counts`."""

    counts: list[int]

    def start(self, outgoing, incoming_bytes):
        self.counts.append(self.counts[-1] + 1)
        return Link.start(self, outgoing, incoming_bytes)

    def wait(self, works):
        Link.wait(self, works)
        self.counts.append(self.counts[-1] - 1)


def pipeline_long_batch() -> list[int]:
    link = OrderedLink(rank=dist.get_rank(), num_ranks=3, group=None, timeout_s=20.0, counts=[0])
    batch = random_columns([5] * 40, torch.Generator().manual_seed(3))
    plan = plan_transfer(LONG, LONG, sizes=make_sizes(batch))
    held = batch.select(LONG.rows_of(link.rank))
    assert_same_bits(gather_scatter_pipelined(plan, held, link), held)
    return link.counts


def test_parts_go_out_while_the_next_come_in():
    for counts in run_ranks(3, pipeline_long_batch):
        assert len(counts) == 1 + 2 * 2 * NUM_PARTS
        assert counts[-1] == 0
        # But for the first and the last parts there are always some in both directions.
        assert min(counts[10:-10]) >= 4
        assert max(counts) <= 7


def send_through_small_buffers() -> list[list[int]]:
    rows_sent: list[list[int]] = []
    for transport in (gather_scatter, gather_scatter_pipelined):
        link = RecordingLink(
            rank=dist.get_rank(), num_ranks=3, group=None, timeout_s=20.0, sizes=[]
        )
        batch = replace(
            random_columns([50] * 300, torch.Generator().manual_seed(3)), turns=None, per_turn={}
        )
        source = Layout.contiguous(num_rows=300, num_ranks=3)
        plan = plan_transfer(source, source, sizes=make_sizes(batch))
        held = batch.select(source.rows_of(link.rank))
        row_bytes = make_sizes(batch).row_bytes(0)
        assert_same_bits(transport(limit_buffers(plan, 8 * row_bytes), held, link), held)
        rows_sent.append([round(sum(sizes) / row_bytes) for sizes in link.sizes])
    return rows_sent


def test_a_controller_keeps_to_the_size_of_buffers():
    for by_rounds, by_parts in run_ranks(3, send_through_small_buffers):
        # 200 of 300 rows go in and out, 8 at a time, or one more of each of two messages.
        assert len(by_rounds) == 2 * 25
        assert max(by_rounds) <= 8 + 2
        # Three times are under way, and one at hand, in each direction.
        assert len(by_parts) == 2 * 100
        assert max(by_parts) <= 8 // 4 + 2


def test_parts_take_equal_bytes_of_every_group_and_cover_every_row_once():
    batch = random_columns([7] * 66, torch.Generator().manual_seed(3))
    sizes = make_sizes(batch)
    source = Layout.contiguous(num_rows=66, num_ranks=3)
    parts = _equal_parts(plan_transfer(source, source, sizes=sizes), 4)
    assert sorted(row for part in parts for row in part) == list(range(66))
    largest_row = max(sizes.row_bytes(row) for row in range(66))
    for rank in range(3):
        mine = set(source.rows_of(rank))
        num_bytes = [sum(sizes.row_bytes(row) for row in part & mine) for part in parts]
        assert max(num_bytes) - min(num_bytes) <= 2 * largest_row


def test_rows_of_no_bytes_are_in_parts_too():
    sizes = RowSizes.of(Schema(per_token=(("ids", torch.int32),), per_row=()), [0, 3, 0])
    for lengths in ([0, 3, 0], [0, 0, 0]):
        layout = Layout.contiguous(num_rows=3, num_ranks=1)
        plan = plan_transfer(layout, layout, sizes=replace(sizes, lengths=tuple(lengths)))
        assert frozenset().union(*_equal_parts(plan, 4)) == {0, 1, 2}
