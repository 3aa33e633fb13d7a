from dataclasses import replace

import pytest
from earl_selector import DeviceSpec, ModelShape, ScoringMemory
from hypothesis import given
from hypothesis import strategies as st

SHAPE = ModelShape(
    name="toy",
    num_layers=2,
    hidden_size=32,
    intermediate_size=64,
    num_heads=8,
    num_kv_heads=4,
    head_dim=4,
    vocab_size=16,
    tie_embeddings=True,
    qkv_bias=False,
)
# By hand, as in test_policy.py: layers of 9,280 weights, an embedding of 16 x 32 and a norm of 32
# make 19,104 weights, of which two ranks share all but five norms of 32.
MEMORY = ScoringMemory(
    shape=SHAPE, device=DeviceSpec.cpu(100_000), bytes_per_parameter=2, utilisation=1.0
)


def test_capacity_equals_the_sum_done_by_hand():
    assert MEMORY.weights_bytes(1) == 2 * 19_104
    assert MEMORY.weights_bytes(2) == 2 * ((19_104 - 160) // 2 + 160)
    # 2 x 32 + 3 x 64 values of a layer are more than 16 logits of 2 + 4 + 4 bytes.
    assert MEMORY.bytes_per_token(1) == 2 * (2 * 32 + 3 * 64)
    assert MEMORY.bytes_per_token(2) == 2 * (2 * 32 + 3 * 32)
    assert MEMORY.capacity_tokens(1) == (100_000 - 38_208) // 512 == 120
    assert MEMORY.capacity_tokens(2) == (100_000 - 19_264) // 320 == 252


def test_a_vocabulary_that_is_not_split_lies_whole_on_every_rank():
    whole = replace(MEMORY, splits_vocabulary=False)
    assert whole.weights_bytes(2) == MEMORY.weights_bytes(2) + 2 * 16 * 32 // 2
    assert whole.weights_bytes(1) == MEMORY.weights_bytes(1)


def test_logits_of_the_whole_vocabulary_lie_on_every_rank():
    large = replace(MEMORY, shape=replace(SHAPE, vocab_size=1000))
    assert [large.bytes_per_token(tp) for tp in (1, 2, 4)] == [10_000] * 3


def test_further_models_and_the_reserve_leave_less():
    fuller = replace(MEMORY, num_models=2, reserve_bytes=1000)
    assert fuller.capacity_tokens(1) == (100_000 - 2 * 38_208 - 1000) // 512
    assert replace(MEMORY, num_models=3).capacity_tokens(1) == 0


@given(st.sampled_from([1, 2, 4]), st.integers(0, 1000), st.sampled_from([0.3, 0.9, 1.0]))
def test_required_memory_is_the_least_with_which_the_tokens_fit(tp, num_tokens, utilisation):
    memory = replace(MEMORY, utilisation=utilisation)
    needed_bytes = memory.required_memory_bytes(tp, num_tokens)
    enough = replace(memory, device=DeviceSpec.cpu(needed_bytes))
    short = replace(memory, device=DeviceSpec.cpu(needed_bytes - 1))
    assert enough.capacity_tokens(tp) == num_tokens
    assert short.capacity_tokens(tp) == max(0, num_tokens - 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"utilisation": 1.5}, r"utilisation must be in \(0, 1\], got 1\.5"),
        ({"num_models": 0}, "got 2, 0 and 0"),
        ({"reserve_bytes": -1}, "got 2, 1 and -1"),
    ],
)
def test_impossible_sizes_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(MEMORY, **change)


def test_degree_that_splits_unequally_is_refused_with_those_that_are_valid():
    with pytest.raises(ValueError, match=r"tp 3 does not divide .* \(valid: 1, 2, 4, 8\)"):
        MEMORY.check_degree(3)
