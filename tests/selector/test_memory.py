from dataclasses import replace

import pytest
from earl_selector import DEVICE_SPECS, MODEL_SHAPES, DeviceSpec, MemoryModel
from hypothesis import given
from hypothesis import strategies as st

QWEN_ON_H100 = MemoryModel(
    shape=MODEL_SHAPES["qwen2.5-72b"],
    device=DEVICE_SPECS["h100-80gb"],
    bytes_per_parameter=2,
    bytes_per_kv_value=2,
    utilisation=0.9,
    reserve_bytes=2 * 10**9,
)

# EARL (arXiv:2510.05943), figure 3: speed-up in per cent of TP 8 over TP 4, Qwen2.5-72B on H100,
# by thousands of context tokens (rows) and responses (columns 8, 16, 32, 64, 128). The cell
# 128 x 32K did not run at TP 4 and has no figure.
NUM_RESPONSES = (8, 16, 32, 64, 128)
SPEEDUP_PERCENT = {
    32: (-1.5, 4.6, 5.0, 6.5),
    16: (-18.8, -5.0, 3.4, 5.5, 3.1),
    8: (-24.7, -20.8, -4.4, 6.4, 5.2),
    4: (-18.0, -25.2, -21.9, -5.9, 5.1),
    2: (-20.0, -28.6, -26.3, -16.6, -5.5),
    1: (-21.1, -32.2, -30.7, -29.1, -6.9),
}


def test_weights_of_a_rank_are_a_share_of_the_matrices_and_all_of_the_norms():
    num_norms = (2 * 80 + 1) * 8192
    num_sharded = 72_706_203_648 - num_norms
    assert QWEN_ON_H100.weights_bytes(1) == 145_412_407_296
    assert QWEN_ON_H100.weights_bytes(4) == 2 * (num_sharded // 4 + num_norms) == 36_355_080_192


def test_cache_of_a_token_is_split_over_kv_heads_and_replicated_beyond_them():
    assert QWEN_ON_H100.kv_bytes_per_token(1) == 327_680
    assert [QWEN_ON_H100.kv_bytes_per_token(tp) for tp in (2, 4, 8)] == [163_840, 81_920, 40_960]
    assert [QWEN_ON_H100.kv_bytes_per_token(tp) for tp in (16, 64)] == [40_960, 40_960]


def test_weights_and_cache_scale_with_their_own_value_sizes():
    wide = replace(QWEN_ON_H100, bytes_per_parameter=4, bytes_per_kv_value=1)
    assert wide.weights_bytes(4) == 2 * QWEN_ON_H100.weights_bytes(4)
    assert 2 * wide.kv_bytes_per_token(4) == QWEN_ON_H100.kv_bytes_per_token(4)


def test_capacity_equals_the_sum_done_by_hand():
    # 0.9 x 84,943,044,608 = 76,448,740,147.2 bytes; less 36,355,080,192 of weights and
    # 2,000,000,000 of reserve = 38,093,659,955; over 81,920 = 465,010.5 tokens.
    assert QWEN_ON_H100.capacity_tokens(4) == 465_010


def test_capacity_is_zero_where_the_weights_alone_do_not_fit():
    assert QWEN_ON_H100.capacity_tokens(1) == 0


@pytest.mark.parametrize(
    ("utilisation", "reserve_bytes", "tp4_tokens", "tp8_tokens"),
    [(0.8, 4 * 10**9, 330_000, 1_090_000), (0.9, 2 * 10**9, 454_000, 1_340_000)],
)
def test_capacities_agree_with_a_published_estimate_for_the_same_hardware(
    utilisation, reserve_bytes, tp4_tokens, tp8_tokens
):
    memory = replace(QWEN_ON_H100, utilisation=utilisation, reserve_bytes=reserve_bytes)
    assert memory.capacity_tokens(4) == pytest.approx(tp4_tokens, rel=0.03)
    assert memory.capacity_tokens(8) == pytest.approx(tp8_tokens, rel=0.03)


@given(utilisation=st.floats(0.8, 0.9), reserve_bytes=st.integers(2 * 10**9, 4 * 10**9))
def test_tp_8_was_faster_in_earl_exactly_where_tp_4_overflows(utilisation, reserve_bytes):
    memory = replace(QWEN_ON_H100, utilisation=utilisation, reserve_bytes=reserve_bytes)
    capacity_tokens = memory.capacity_tokens(4)
    agreements = [
        (speedup > 0) == (num_responses * thousands * 1024 > capacity_tokens)
        for thousands, row in SPEEDUP_PERCENT.items()
        for num_responses, speedup in zip(NUM_RESPONSES, row, strict=False)
    ]
    assert len(agreements) == 29
    assert all(agreements)


@given(memory_bytes=st.integers(1, 2 * 10**11), utilisation=st.floats(0.01, 1.0))
def test_capacity_never_falls_as_the_degree_rises(memory_bytes, utilisation):
    memory = replace(QWEN_ON_H100, device=DeviceSpec.cpu(memory_bytes), utilisation=utilisation)
    capacities = [memory.capacity_tokens(tp) for tp in (1, 2, 4, 8, 16, 32, 64)]
    assert capacities == sorted(capacities)


@given(memory_bytes=st.integers(40 * 10**9, 2 * 10**11), tp=st.sampled_from([2, 4, 8]))
def test_doubling_the_degree_more_than_doubles_the_capacity_up_to_the_kv_heads(memory_bytes, tp):
    memory = replace(QWEN_ON_H100, device=DeviceSpec.cpu(memory_bytes))
    assert memory.capacity_tokens(tp) >= 2 * memory.capacity_tokens(tp // 2)


@given(
    num_tokens=st.integers(1, 10**7),
    utilisation=st.floats(0.01, 1.0),
    tp=st.sampled_from([1, 4, 8, 16]),
)
def test_required_memory_holds_the_tokens_and_one_byte_less_does_not(num_tokens, utilisation, tp):
    memory = replace(QWEN_ON_H100, utilisation=utilisation)
    memory_bytes = memory.required_memory_bytes(tp, num_tokens)
    enough = replace(memory, device=DeviceSpec.cpu(memory_bytes))
    short = replace(memory, device=DeviceSpec.cpu(memory_bytes - 1))
    assert enough.capacity_tokens(tp) == num_tokens
    assert short.capacity_tokens(tp) < num_tokens


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"utilisation": 0.0}, r"utilisation must be in \(0, 1\], got 0.0"),
        ({"utilisation": 1.1}, r"utilisation must be in \(0, 1\], got 1.1"),
        ({"reserve_bytes": -1}, "reserve_bytes must be >= 0, got -1"),
        ({"bytes_per_kv_value": 0}, "must be >= 1, got 2 and 0"),
    ],
)
def test_impossible_constants_are_refused_with_the_value(change, message):
    with pytest.raises(ValueError, match=message):
        replace(QWEN_ON_H100, **change)


def test_degree_that_does_not_divide_the_heads_is_refused():
    with pytest.raises(ValueError, match="tp 3 does not divide the model's 64 attention heads"):
        QWEN_ON_H100.check_degree(3)
