from dataclasses import replace

import pytest
from earl_selector import MODEL_SHAPES, ModelShape, list_valid_degrees
from earl_selector.sharding import check_degree, rank_shape
from hypothesis import given
from hypothesis import strategies as st

SMOLLM2 = MODEL_SHAPES["smollm2-135m"]
QWEN = MODEL_SHAPES["qwen2.5-72b"]


@st.composite
def shapes(draw):
    num_kv_heads = draw(st.integers(1, 12))
    return ModelShape(
        name="drawn",
        num_layers=draw(st.integers(1, 4)),
        hidden_size=draw(st.integers(1, 64)),
        intermediate_size=draw(st.integers(1, 8)) * draw(st.sampled_from([1, 12, 16, 35])),
        num_heads=num_kv_heads * draw(st.integers(1, 6)),
        num_kv_heads=num_kv_heads,
        head_dim=draw(st.integers(1, 16)),
        vocab_size=draw(st.integers(1, 300)),
        tie_embeddings=draw(st.booleans()),
        qkv_bias=draw(st.booleans()),
    )


@pytest.mark.parametrize(
    ("shape", "tp", "message"),
    [
        (SMOLLM2, 2, r"tp 2 does not divide the model's 9 attention heads \(valid: 1, 3\)"),
        (SMOLLM2, 9, r"tp 9 does not divide the model's MLP width 1536 \(valid: 1, 3\)"),
        (SMOLLM2, 0, "tp 0 is not a positive number of ranks"),
        (
            replace(QWEN, num_heads=12, num_kv_heads=4),
            6,
            r"tp 6 neither divides nor is a multiple of the model's 4 KV heads "
            r"\(valid: 1, 2, 4, 12\)",
        ),
    ],
)
def test_degrees_that_split_unequally_are_refused_with_the_rule_and_the_valid_ones(
    shape, tp, message
):
    with pytest.raises(ValueError, match=message):
        check_degree(shape, tp)


def test_valid_degrees_of_known_models():
    assert list_valid_degrees(SMOLLM2) == (1, 3)
    assert list_valid_degrees(QWEN) == (1, 2, 4, 8, 16, 32, 64)


def test_stages_split_the_layers_and_the_last_holds_one_vocabulary_matrix():
    stage, whole = rank_shape(QWEN, 4, 8), rank_shape(QWEN, 4)
    assert (stage.num_layers, whole.num_layers) == (10, 80)
    layers = whole.num_parameters - 2 * (152_064 // 4) * 8192 - 8192
    assert stage.num_parameters == layers // 8 + (152_064 // 4) * 8192 + 8192


@pytest.mark.parametrize("pp", [0, 3])
def test_stages_that_do_not_split_the_layers_evenly_are_refused(pp):
    with pytest.raises(ValueError, match=f"pp {pp} does not divide the model's 80 layers"):
        rank_shape(QWEN, 1, pp)


def test_every_expert_is_split_and_the_router_is_not():
    moe = MODEL_SHAPES["qwen3-30b-a3b"]
    rank = rank_shape(moe, 4)
    assert (rank.num_experts, rank.intermediate_size) == (128, 768 // 4)
    dense = replace(moe, num_experts=1, num_active_experts=1)
    router = moe.count_layer_parameters(0) - dense.count_layer_parameters(0)
    assert router == 2048 * 128
    assert rank.count_layer_parameters(0) - rank_shape(dense, 4).count_layer_parameters(0) == router


@given(shapes())
def test_one_rank_holds_the_whole_model(shape):
    assert rank_shape(shape, 1) == shape


@given(shapes())
def test_ranks_together_hold_every_weight_and_waste_only_replicas_and_padding(shape):
    for tp in list_valid_degrees(shape):
        num_norms = (2 * shape.num_layers + 1) * shape.hidden_size
        num_kv_replicas = max(1, tp // shape.num_kv_heads)
        num_padding_rows = -shape.vocab_size % tp
        kv_size = shape.num_kv_heads * shape.head_dim
        num_kv_weights = 2 * shape.num_layers * kv_size * (shape.hidden_size + shape.qkv_bias)
        num_vocab_matrices = 1 if shape.tie_embeddings else 2
        assert tp * rank_shape(shape, tp).num_parameters == (
            shape.num_parameters
            + (tp - 1) * num_norms
            + (num_kv_replicas - 1) * num_kv_weights
            + num_vocab_matrices * num_padding_rows * shape.hidden_size
        )
