import pytest
from earl_selector import DeviceSpec, MemoryModel, ModelShape
from earl_selector.degrees import check_degrees, list_usable_degrees

# The toy of test_policy.py, whose capacities 458, 1,237 and 2,795 are computed there by hand.
MEMORY = MemoryModel(
    shape=ModelShape(
        name="toy",
        num_layers=2,
        hidden_size=32,
        intermediate_size=64,
        num_heads=8,
        num_kv_heads=4,
        head_dim=4,
        vocab_size=64,
        tie_embeddings=True,
        qkv_bias=False,
    ),
    device=DeviceSpec.cpu(100_000),
    bytes_per_parameter=2,
    bytes_per_kv_value=2,
    utilisation=1.0,
    reserve_bytes=0,
)


def test_usable_is_what_holds_one_full_context():
    for limit, usable in ((458, (1, 2, 4)), (459, (2, 4)), (1238, (4,))):
        assert list_usable_degrees(MEMORY, (4, 1, 2), max_context_tokens=limit) == usable


@pytest.mark.parametrize(
    ("degrees", "num_devices", "max_context_tokens", "message"),
    [
        ((), 4, 100, r"distinct and at least one, got \(\)"),
        ((1, 1), 4, 100, r"distinct and at least one, got \(1, 1\)"),
        ((1, 3), 4, 100, r"tp 3 does not divide the model's 8 attention heads \(valid: 1, 2, 4, 8"),
        ((8,), 4, 100, "tp 8 needs 8 devices, more than the 4 there are"),
        ((1,), 4, 0, "max_context_tokens must be >= 1, got 0"),
    ],
)
def test_impossible_degrees_are_refused_with_the_rule_and_the_value(
    degrees, num_devices, max_context_tokens, message
):
    with pytest.raises(ValueError, match=message):
        check_degrees(
            MEMORY, degrees, num_devices=num_devices, max_context_tokens=max_context_tokens
        )


def test_context_that_fits_no_degree_is_refused_with_the_memory_and_the_context_that_would_do():
    # Four ranks: 10,560 bytes of weights and 3,000 tokens of 32 bytes.
    with pytest.raises(ValueError, match=r"3,000 tokens on cpu with 100,000 bytes") as refused:
        check_degrees(MEMORY, (1, 2, 4), num_devices=4, max_context_tokens=3000)
    assert "106,560 bytes (1 MiB) per device at tp 4" in str(refused.value)
    assert "the longest context that fits these devices is 2,795 tokens" in str(refused.value)
