from dataclasses import dataclass

import torch
import torch.distributed as dist
from earl_dispatch import Layout, RowSizes, plan_transfer
from earl_dispatch.link import Link
from earl_dispatch.testing import assert_same_bits, random_columns, run_ranks
from earl_dispatch.transports.gather_scatter import gather_scatter

LENGTHS = (3, 0, 5, 1)
REPLICATED = Layout(owners=(0, 0, 1, 1), groups=((2, 0), (1,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingLink(Link):
    """Keeps the number of bytes sent to each rank in `sizes`."""

    sizes: list[list[int]]

    def exchange(self, outgoing, incoming_bytes):
        self.sizes.append([part.shape[0] for part in outgoing])
        return Link.exchange(self, outgoing, incoming_bytes)


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
