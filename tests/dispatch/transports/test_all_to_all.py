from dataclasses import dataclass

import torch
import torch.distributed as dist
from earl_dispatch import Layout, RowSizes, TransferPlan, plan_transfer
from earl_dispatch.link import Link
from earl_dispatch.testing import assert_same_bits, random_columns, run_ranks
from earl_dispatch.transports.all_to_all import all_to_all

LENGTHS = (3, 0, 5, 1, 4, 2)
SOURCE = Layout.contiguous(num_rows=6, num_ranks=3)
TARGET = Layout(owners=(0, 1, 2, 0, 1, 2), groups=((0,), (1,), (2,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingLink(Link):
    """Keeps the number of bytes sent to each rank in `sizes`."""

    sizes: list[list[int]]

    def exchange(self, outgoing, incoming_bytes):
        self.sizes.append([part.shape[0] for part in outgoing])
        return Link.exchange(self, outgoing, incoming_bytes)


def make_plan() -> TransferPlan:
    batch = random_columns(LENGTHS, torch.Generator().manual_seed(3))
    return plan_transfer(SOURCE, TARGET, sizes=RowSizes.of_columns(batch))


def send_and_record() -> list[list[int]]:
    link = RecordingLink(rank=dist.get_rank(), num_ranks=3, group=None, timeout_s=20.0, sizes=[])
    batch = random_columns(LENGTHS, torch.Generator().manual_seed(3))
    received = all_to_all(make_plan(), batch.select(SOURCE.rows_of(link.rank)), link)
    assert_same_bits(received, batch.select(TARGET.rows_of(link.rank)))
    return link.sizes


def test_the_bytes_on_the_wire_are_those_of_the_plan_in_one_exchange():
    plan = make_plan()
    planned = [[0] * 3 for _ in range(3)]
    for transfer in plan.transfers:
        planned[transfer.source_rank][transfer.target_rank] = plan.bytes_of(transfer)
    assert run_ranks(3, send_and_record) == [[row] for row in planned]
