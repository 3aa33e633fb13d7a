from dataclasses import replace

import pytest
from earl_selector import DeviceSpec, ModelShape, ScoringMemory, ScoringThroughput, ThroughputModel

SHAPE = ModelShape(
    name="toy",
    num_layers=2,
    hidden_size=8,
    intermediate_size=16,
    num_heads=4,
    num_kv_heads=2,
    head_dim=2,
    vocab_size=32,
    tie_embeddings=False,
    qkv_bias=False,
)
# One layer: 2 x 8 x (8 + 4) + 3 x 8 x 16 + 2 x 8 = 592 weights; each vocabulary matrix 256, the
# last norm 8: 1,704 weights, of which a token computes with 2 x 592 + 256 = 1,440.
DEVICE = DeviceSpec(
    name="toy",
    memory_bytes=100_000,
    memory_bytes_per_s=1000.0,
    flops_per_s=1e6,
    link_bytes_per_s=1e4,
    link_latency_s=0.01,
)
TOY = ScoringThroughput(
    memory=ScoringMemory(shape=SHAPE, device=DEVICE, bytes_per_parameter=2, utilisation=1.0),
    memory_efficiency=0.5,
    compute_efficiency=1.0,
)


def test_a_short_pass_takes_as_long_as_the_weights_are_read():
    assert isinstance(TOY, ThroughputModel)
    assert TOY.pass_s(1, 1, 4) == pytest.approx(2 * 1704 / 500.0)


def test_a_long_pass_takes_its_operations_and_ranks_sum_between_halves_of_layers():
    device = replace(DEVICE, memory_bytes_per_s=1e9)
    fast = replace(TOY, memory=replace(TOY.memory, device=device))
    # Each of 30 tokens: 2 x 1,440, and 2 x 10 x 8 x 2 for what it attends to.
    assert fast.pass_s(1, 3, 10) == pytest.approx(30 * (2880 + 320) / 1e6)
    # A rank of two has half of each but the norms: 2 x (592 - 16) / 2 + 2 x 16 + 128 = 736.
    operations_s = 30 * (2 * 736 + 160) / 1e6
    sums_s = 4 * (2 * 0.01 + 30 * 8 * 2 / 1e4)
    assert fast.pass_s(2, 3, 10) == pytest.approx(operations_s + sums_s)


def test_rows_beyond_one_pass_take_further_passes_and_no_speed():
    at_once = TOY.memory.capacity_tokens(1) // 10
    full = TOY.tokens_per_s_per_device(1, at_once, 10)
    assert TOY.tokens_per_s_per_device(1, 3 * at_once, 10) == pytest.approx(full)
    assert full == pytest.approx(at_once * 10 / TOY.pass_s(1, at_once, 10))
    some = TOY.tokens_per_s_per_device(1, at_once + 1, 10)
    both_s = TOY.pass_s(1, at_once, 10) + TOY.pass_s(1, 1, 10)
    assert some == pytest.approx((at_once + 1) * 10 / both_s)
    assert TOY.tokens_per_s_per_device(1, 1, TOY.memory.capacity_tokens(1) + 1) == 0.0
