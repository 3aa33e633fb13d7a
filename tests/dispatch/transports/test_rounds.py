from dataclasses import dataclass

import torch
import torch.distributed as dist
from earl_dispatch import Hosts, Layout, RowSizes, plan_transfer
from earl_dispatch.link import Link
from earl_dispatch.testing import assert_same_bits, random_columns, run_ranks
from earl_dispatch.transports.rounds import run_rounds

LENGTHS = (3, 5)
SOURCE = Layout(owners=(0, 0), groups=((0,),))
TARGET = Layout(owners=(0, 0), groups=((1, 2),))
HOSTS = Hosts(of=(0, 1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingLink(Link):
    """Keeps the number of bytes sent to each rank in `sizes`."""

    sizes: list[list[int]]

    def exchange(self, outgoing, incoming_bytes):
        self.sizes.append([part.shape[0] for part in outgoing])
        return Link.exchange(self, outgoing, incoming_bytes)


def make_batch():
    return random_columns(LENGTHS, torch.Generator().manual_seed(3))


def make_plan():
    batch = make_batch()
    sizes = RowSizes.of_columns(batch)
    return plan_transfer(SOURCE, TARGET, sizes=sizes, hosts=HOSTS)


def send_and_record() -> list[list[int]]:
    link = RecordingLink(rank=dist.get_rank(), num_ranks=3, group=None, timeout_s=20.0, sizes=[])
    received = run_rounds(make_plan(), make_batch().select(SOURCE.rows_of(link.rank)), link)
    assert_same_bits(received, make_batch().select(TARGET.rows_of(link.rank)))
    return link.sizes


def test_a_host_is_sent_the_rows_once_and_passes_them_on_in_a_second_exchange():
    whole = make_plan().bytes_moved // 2
    assert run_ranks(3, send_and_record) == [
        [[0, whole, 0], [0, 0, 0]],
        [[0, 0, 0], [0, 0, whole]],
        [[0, 0, 0], [0, 0, 0]],
    ]
