"""Ranks on emulated hosts."""

import os
import shutil

import pytest
import torch
from earl_dispatch import execute_local


@pytest.fixture
def tool(load_tool):
    return load_tool("dispatch_ranks")


@pytest.mark.parametrize("num_hosts", [4, 8, 16])
def test_every_host_has_as_much_for_every_host(tool, num_hosts):
    batch = tool.Batch(num_hosts=num_hosts, tokens_per_row=16)
    part = batch.total_bytes // num_hosts**2
    assert batch.plan.link_bytes == {
        (a, b): part for a in range(num_hosts) for b in range(num_hosts) if a != b
    }
    first = range(num_hosts)
    for layout in (batch.plan.source, batch.plan.target):
        assert sorted(layout.owners[row] for row in first) == list(first)


def test_a_number_stands_for_every_bit_of_the_columns(tool):
    batch = tool.Batch(num_hosts=4, tokens_per_row=8)
    columns = batch.columns(1)
    number = tool.digest(columns)
    assert number == tool.digest(batch.columns(1)) != tool.digest(batch.columns(2))
    columns.per_token["mask"][5] ^= True
    assert tool.digest(columns) != number


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("tc"), reason="needs root and iproute2")
def test_ranks_on_hosts_dispatch_over_their_links(tool, load_tool):
    batch = tool.Batch(num_hosts=4, tokens_per_row=256)
    hosts_tool = load_tool("emulated_hosts")
    with (
        hosts_tool.emulated_hosts(4, bits_per_s=8_000_000) as hosts,
        tool.started_ranks(hosts) as ranks,
    ):
        done = {name: ranks.dispatch(batch, name) for name in ("all_to_all", "gather_scatter")}
        with pytest.raises(RuntimeError, match=r"rank \d died"):
            ranks.dispatch(batch, "carrier_pigeon")
    expected = execute_local(batch.plan, [batch.columns(rank) for rank in range(4)])
    digests = tuple(map(tool.digest, expected))
    assert done["all_to_all"].digests == done["gather_scatter"].digests == digests
    floor_s = batch.total_bytes / 4 * 0.75 / 1e6
    # A link lets a first burst through at once.
    assert 0.9 * floor_s < done["all_to_all"].seconds < done["gather_scatter"].seconds
    sent_bytes = batch.plan.bytes_sent(1)
    assert sent_bytes <= done["all_to_all"].sent[1].payload_bytes < 1.2 * sent_bytes + 5000
    assert torch.tensor(done["gather_scatter"].received[0].payload_bytes) > 2 * sent_bytes
