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


def test_weights_of_a_rank_are_a_share_of_the_matrices_and_all_of_the_norms():
    num_norms = (2 * 80 + 1) * 8192
    num_sharded = 72_706_203_648 - num_norms
    assert QWEN_ON_H100.weights_bytes(1) == 145_412_407_296
    assert QWEN_ON_H100.weights_bytes(4) == 2 * (num_sharded // 4 + num_norms) == 36_355_080_192


def test_a_vocabulary_that_is_not_split_lies_whole_on_every_rank():
    whole = replace(QWEN_ON_H100, splits_vocabulary=False)
    num_vocab = 2 * 152_064 * 8192
    assert whole.weights_bytes(1) == QWEN_ON_H100.weights_bytes(1)
    more_bytes = whole.weights_bytes(4) - QWEN_ON_H100.weights_bytes(4)
    assert more_bytes == 2 * (num_vocab - num_vocab // 4)
    lost_tokens = QWEN_ON_H100.capacity_tokens(4) - whole.capacity_tokens(4)
    assert lost_tokens == pytest.approx(more_bytes / 81_920, abs=1)


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


def test_used_memory_is_weights_and_reserve_and_the_cache_of_the_tokens():
    used = QWEN_ON_H100.used_bytes(4, 465_010)
    assert used == 36_355_080_192 + 2_000_000_000 + 465_010 * 81_920
    assert used <= 0.9 * 84_943_044_608 < used + 81_920


def test_stages_share_layers_and_therefore_hold_more_tokens():
    # Each of two stages has half the layers: half the cache of a token, about half the weights.
    assert 2 * QWEN_ON_H100.kv_bytes_per_token(4, pp=2) == QWEN_ON_H100.kv_bytes_per_token(4)
    assert 0.49 < QWEN_ON_H100.weights_bytes(4, pp=2) / QWEN_ON_H100.weights_bytes(4) < 0.51
    assert QWEN_ON_H100.capacity_tokens(4, pp=2) > 2 * QWEN_ON_H100.capacity_tokens(4)
    needed_bytes = QWEN_ON_H100.required_memory_bytes(4, 10**6, pp=2)
    enough = replace(QWEN_ON_H100, device=DeviceSpec.cpu(needed_bytes))
    assert enough.capacity_tokens(4, pp=2) == 10**6


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
