from dataclasses import replace

import pytest
from earl_selector import DEVICE_SPECS, MODEL_SHAPES, DeviceSpec, MemoryModel, ModelShape
from earl_selector.roofline import RooflineThroughput
from earl_selector.throughput import ThroughputModel
from hypothesis import given
from hypothesis import strategies as st

QWEN = RooflineThroughput(
    memory=MemoryModel(
        shape=MODEL_SHAPES["qwen2.5-72b"],
        device=DEVICE_SPECS["h100-80gb"],
        bytes_per_parameter=2,
        bytes_per_kv_value=2,
        utilisation=0.9,
        reserve_bytes=3 * 10**9,
    )
)
CAPACITY_TP4 = 452_803
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
# One layer: 2 x 8 x (8 + 4) + 3 x 8 x 16 + 2 x 8 = 592 weights; the output projection: 256. Both
# layers and the projection: 1,440 weights, so 2,880 bytes. A token's cache: 2 x 2 x 2 x 2 x 2 = 32.
DEVICE = DeviceSpec(
    name="toy",
    memory_bytes=100_000,
    memory_bytes_per_s=1000.0,
    flops_per_s=1e9,
    link_bytes_per_s=10.0,
    link_latency_s=0.5,
)
TOY = RooflineThroughput(
    memory=MemoryModel(
        shape=SHAPE,
        device=DEVICE,
        bytes_per_parameter=2,
        bytes_per_kv_value=2,
        utilisation=1.0,
        reserve_bytes=0,
    ),
    memory_efficiency=0.5,
    compute_efficiency=1.0,
)


def with_device(model, **changes):
    device = replace(model.memory.device, **changes)
    return replace(model, memory=replace(model.memory, device=device))


def test_it_is_a_throughput_model():
    assert isinstance(QWEN, ThroughputModel)


def test_a_step_reads_the_weights_once_and_the_cache_of_every_token():
    assert TOY.step_s(1, 3, 10) == pytest.approx((2880 + 3 * 10 * 32) / 500)


def test_a_step_computes_two_operations_per_weight_and_four_per_cached_position_and_value():
    slow = with_device(TOY, flops_per_s=1.0)
    assert slow.step_s(1, 3, 10) == pytest.approx(3 * (2 * 1440 + 4 * 10 * 8 * 2))


def test_ranks_reduce_twice_per_layer_in_a_butterfly():
    alone = with_device(TOY, link_latency_s=0.0, link_bytes_per_s=1e30)
    collectives = TOY.step_s(4, 3, 10) - alone.step_s(4, 3, 10)
    # Two layers, twice each: 4 messages of latency, 3 x 8 x 2 = 48 bytes sent 2 x 3/4 times.
    assert collectives == pytest.approx(2 * 2 * (4 * 0.5 + 2 * 3 / 4 * 48 / 10))
    assert TOY.step_s(1, 3, 10) == alone.step_s(1, 3, 10)


def test_overhead_is_added_to_every_step():
    assert replace(TOY, overhead_s=7.0).step_s(1, 3, 10) == pytest.approx(7 + TOY.step_s(1, 3, 10))


def test_of_experts_those_are_read_that_some_response_uses():
    experts = replace(SHAPE, num_experts=4, num_active_experts=2)
    moe = replace(TOY, memory=replace(TOY.memory, shape=experts))
    # One response uses 2 of 4 experts, two use 3 on average; an expert of two layers has 768
    # weights of 2 bytes. The router reads 2 x 8 x 4 more weights.
    for num_running, num_used in ((1, 2), (2, 3)):
        read_bytes = 2880 + 2 * 64 + (num_used - 1) * 2 * 768 + num_running * 10 * 32
        assert moe.step_s(1, num_running, 10) == pytest.approx(read_bytes / 500)


def test_responses_that_fit_run_together():
    num_responses, context_tokens = 27, 16_384
    assert num_responses * context_tokens <= CAPACITY_TP4
    assert QWEN.tokens_per_s_per_device(4, num_responses, context_tokens) == pytest.approx(
        num_responses / QWEN.step_s(4, num_responses, context_tokens) / 4
    )


def test_responses_that_do_not_fit_run_in_waves():
    context_tokens = 16_384
    waves_s = 2 * QWEN.step_s(4, 27, context_tokens) + QWEN.step_s(4, 10, context_tokens)
    assert QWEN.tokens_per_s_per_device(4, 64, context_tokens) == pytest.approx(64 / waves_s / 4)


def test_nothing_runs_where_not_one_response_fits():
    assert QWEN.tokens_per_s_per_device(4, 8, CAPACITY_TP4) > 0.0
    assert QWEN.tokens_per_s_per_device(4, 8, CAPACITY_TP4 + 1) == 0.0
    assert QWEN.tokens_per_s_per_device(1, 1, 1) == 0.0


@given(
    tp=st.sampled_from([4, 8]),
    num_responses=st.integers(1, 200),
    contexts=st.tuples(st.integers(1, 400_000), st.integers(1, 400_000)),
)
def test_longer_contexts_are_never_faster(tp, num_responses, contexts):
    short, long = (
        QWEN.tokens_per_s_per_device(tp, num_responses, context) for context in sorted(contexts)
    )
    assert long <= short


@given(num_responses=st.integers(1, 128), context_tokens=st.integers(1, 100_000))
def test_a_faster_device_is_never_slower(num_responses, context_tokens):
    faster = with_device(QWEN, memory_bytes_per_s=4.8e12, link_latency_s=1e-6)
    load = (4, num_responses, context_tokens)
    assert faster.tokens_per_s_per_device(*load) >= QWEN.tokens_per_s_per_device(*load)


@pytest.mark.parametrize(("num_responses", "context_tokens"), [(0, 1), (1, 0)])
def test_a_load_of_nothing_is_refused(num_responses, context_tokens):
    with pytest.raises(ValueError, match="responses and context must be >= 1"):
        QWEN.tokens_per_s_per_device(4, num_responses, context_tokens)


@pytest.mark.parametrize(
    "change", [{"memory_efficiency": 0.0}, {"compute_efficiency": 1.1}, {"overhead_s": -1.0}]
)
def test_impossible_constants_are_refused(change):
    with pytest.raises(ValueError, match=r"efficiencies must be in \(0, 1\] and overhead_s >= 0"):
        replace(QWEN, **change)
