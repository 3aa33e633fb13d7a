from dataclasses import dataclass

import pytest
from earl_selector import (
    DEVICE_SPECS,
    MODEL_SHAPES,
    CapacityModel,
    DeviceSpec,
    MemoryModel,
    ScoringMemory,
    SelectorPolicy,
)

COMMON = {
    "shape": MODEL_SHAPES["smollm2-135m"],
    "device": DEVICE_SPECS["h100-80gb"],
    "bytes_per_parameter": 2,
    "utilisation": 0.9,
}


@dataclass(frozen=True)
class Shelf:
    """Memory that somebody counted in another way: 100 tokens per rank, at degrees up to 4."""

    device: DeviceSpec

    def check_degree(self, tp: int) -> None:
        if tp > 4:
            raise ValueError(f"tp {tp} is more than 4")

    def capacity_tokens(self, tp: int) -> int:
        return 100 * tp

    def required_memory_bytes(self, tp: int, num_tokens: int) -> int:
        return num_tokens // tp


def test_what_the_package_offers_and_what_others_bring_serve_alike():
    cache = MemoryModel(**COMMON, bytes_per_kv_value=2, reserve_bytes=0)
    for memory in (cache, ScoringMemory(**COMMON), Shelf(DeviceSpec.cpu(1000))):
        assert isinstance(memory, CapacityModel)
    assert not isinstance(MODEL_SHAPES["smollm2-135m"], CapacityModel)


def test_a_policy_asks_of_memory_nothing_else():
    shelf = Shelf(DeviceSpec.cpu(1000))
    policy = SelectorPolicy(memory=shelf, degrees=(1, 2, 4), num_devices=4, max_context_tokens=150)
    assert policy.usable_degrees == (2, 4)
    assert policy.update(policy.init(), None)[0].capacity_tokens == 200
    with pytest.raises(ValueError, match="tp 8 is more than 4"):
        SelectorPolicy(memory=shelf, degrees=(8,), num_devices=8, max_context_tokens=1)
    with pytest.raises(ValueError, match="the least that does is 125 bytes"):
        SelectorPolicy(memory=shelf, degrees=(1, 4), num_devices=4, max_context_tokens=500)
