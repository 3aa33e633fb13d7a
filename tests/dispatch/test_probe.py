"""The measured rate is one rate, of bytes that really moved."""

import time

import pytest
import torch.distributed as dist
from earl_dispatch.probe import measure_network
from earl_dispatch.testing import run_ranks


def measure(transport, num_bytes):
    dist.barrier()
    start_s = time.perf_counter()
    network = measure_network(transport=transport, num_bytes=num_bytes, timeout_s=20.0)
    return network.bytes_per_s, time.perf_counter() - start_s


@pytest.mark.parametrize("transport", ["all_to_all", "shared_memory"])
def test_all_ranks_get_the_rate_of_a_transfer_that_fits_into_the_time_it_took(transport):
    num_bytes = 1 << 20
    results = run_ranks(3, measure, transport, num_bytes)
    rates = {rate for rate, _ in results}
    assert len(rates) == 1
    for rate, wall_s in results:
        # Four transfers, of which the fastest but the first counts.
        assert 0.0 < num_bytes / rate < wall_s / 2


def test_a_rank_has_nobody_to_send_to_alone():
    with pytest.raises(ValueError, match=r"joins 2 ranks or more.*got 1 ranks"):
        measure_network(transport="all_to_all")


def measure_nothing():
    with pytest.raises(ValueError, match=r"1 byte or more.*and 0 bytes"):
        measure_network(transport="all_to_all", num_bytes=0)


def test_nothing_cannot_be_timed():
    run_ranks(2, measure_nothing)
