from dataclasses import replace

import pytest
from earl_selector import DeviceSpec


def test_device_without_memory_is_refused():
    with pytest.raises(ValueError, match="memory_bytes of a device must be >= 1, got 0"):
        DeviceSpec.cpu(0)


@pytest.mark.parametrize(
    "change",
    [
        ("memory_bytes_per_s", 0.0),
        ("flops_per_s", -1),
        ("link_bytes_per_s", 0),
        ("link_latency_s", -1e-9),
    ],
)
def test_impossible_rates_are_refused(change):
    with pytest.raises(ValueError, match="rates must be positive and its latency not negative"):
        replace(DeviceSpec.cpu(1), **dict([change]))


def test_a_cpu_has_the_memory_it_is_given():
    assert DeviceSpec.cpu(123).memory_bytes == 123
    assert DeviceSpec.cpu(123).name == "cpu"


def test_summing_between_ranks_takes_their_messages_and_the_bytes_of_each():
    device = replace(DeviceSpec.cpu(1), link_bytes_per_s=10.0, link_latency_s=0.5)
    assert device.all_reduce_s(1, 100) == 0.0
    assert device.all_reduce_s(2, 100) == 2 * 0.5 + 100 / 10.0
    assert device.all_reduce_s(4, 100) == 4 * 0.5 + 1.5 * 100 / 10.0
