import pytest
import torch
from earl_selector import MODEL_SHAPES, ModelShape
from earl_selector.activations import (
    Recompute,
    gpt_layer_activation_bytes,
    inference_activation_bytes,
    layer_activation_bytes,
    logits_bytes,
)
from earl_selector.sharding import rank_shape

LLAMA = MODEL_SHAPES["llama-3.1-70b"]
# 4 sequences of 32 tokens, hidden size 64, 8 heads: s b h = 8,192 and a s^2 b = 32,768.
SMALL_GPT = {"hidden_size": 64, "num_heads": 8, "num_sequences": 4, "context_tokens": 32}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 34 * 8192 + 5 * 32_768),
        ({"tp": 4}, 10 * 8192 + 6 * 8192 + 5 * 8192),
        ({"tp": 4, "sequence_parallel": True}, (34 * 8192 + 5 * 32_768) // 4),
        ({"tp": 4, "recompute": Recompute.ATTENTION}, 16 * 8192),
        ({"tp": 4, "recompute": Recompute.LAYERS}, 2 * 8192),
    ],
)
def test_gpt_layers_take_what_korthikanti_et_al_give(options, expected):
    assert gpt_layer_activation_bytes(**SMALL_GPT, **options) == expected


@pytest.mark.parametrize(("context_tokens", "reported_gb"), [(4096, 97), (8192, 354)])
def test_a_fifth_of_the_gpt_formula_gives_earls_training_batch_to_the_digit(
    context_tokens, reported_gb
):
    layer = gpt_layer_activation_bytes(
        hidden_size=8192, num_heads=64, num_sequences=1, context_tokens=context_tokens
    )
    assert LLAMA.num_layers * layer / 5 == reported_gb * 2**30


def saved_bytes_per_layer(model_type, dtype, attention, *, num_sequences, context_tokens):
    """Measure what autograd keeps of one more layer."""
    transformers = pytest.importorskip("transformers")
    totals = []
    for num_layers in (1, 2):
        config = transformers.AutoConfig.for_model(
            model_type,
            num_hidden_layers=num_layers,
            hidden_size=48,
            intermediate_size=80,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=8,
            vocab_size=100,
        )
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=dtype, attn_implementation=attention
        ).train()
        weights = {parameter.data_ptr() for parameter in model.parameters()}
        storages = {}

        def keep(tensor, weights=weights, storages=storages):
            storage = tensor.untyped_storage()
            if tensor.data_ptr() not in weights:
                storages[storage.data_ptr()] = storage
            return tensor

        tokens = torch.zeros((num_sequences, context_tokens), dtype=torch.long)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            output = model.model(tokens)
        totals.append(sum(storage.nbytes() for storage in storages.values()))
        assert output.last_hidden_state.requires_grad
    return totals[1] - totals[0], ModelShape.from_config(config.to_dict())


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize(("dtype", "bytes_per_value"), [(torch.float32, 4), (torch.bfloat16, 2)])
@pytest.mark.parametrize("model_type", ["llama", "qwen3"])
def test_a_layer_keeps_what_autograd_saves_of_the_transformers_module(
    model_type, dtype, bytes_per_value, attention
):
    measured, shape = saved_bytes_per_layer(
        model_type, dtype, attention, num_sequences=2, context_tokens=96
    )
    expected = layer_activation_bytes(
        shape,
        num_tokens=2 * 96,
        context_tokens=96,
        bytes_per_value=bytes_per_value,
        fused_attention=attention == "sdpa",
    )
    # The scales of the norms, one number per token or head, are left out.
    assert 0.98 * measured < expected <= measured


def test_recomputing_attention_keeps_as_much_as_fusing_it():
    arguments = {"num_tokens": 4096, "context_tokens": 4096, "bytes_per_value": 2}
    eager = layer_activation_bytes(LLAMA, **arguments, fused_attention=False)
    fused = layer_activation_bytes(LLAMA, **arguments)
    recomputed = layer_activation_bytes(
        LLAMA, **arguments, fused_attention=False, recompute=Recompute.ATTENTION
    )
    assert recomputed == fused < eager
    # 64 heads x 4,096^2 probabilities of 4 + 2 bytes, keys and values for 56 heads more, less the
    # normalisers.
    assert eager - fused == 64 * 4096**2 * 6 + 4096 * (2 * 56 * 128 * 2 - 64 * 4)


def test_recomputed_layers_keep_their_input_alone():
    arguments = {"num_tokens": 100, "context_tokens": 50, "bytes_per_value": 2}
    kept = layer_activation_bytes(LLAMA, **arguments, recompute=Recompute.LAYERS)
    assert kept == 100 * 2 * 8192


def test_ranks_split_what_is_wide_and_sequence_parallelism_the_rest():
    arguments = {"num_tokens": 4096, "context_tokens": 4096, "bytes_per_value": 2}
    rank = rank_shape(LLAMA, 8)
    whole = layer_activation_bytes(LLAMA, **arguments)
    plain = layer_activation_bytes(rank, **arguments)
    split = layer_activation_bytes(rank, **arguments, sequence_parallel_degree=8)
    norms = 4096 * 2 * 8192 * (4 + 2 * 2)
    assert plain == (whole - norms) // 8 + norms
    assert split == whole // 8


def test_experts_keep_their_inputs_and_products_for_each_that_a_token_passes():
    moe = MODEL_SHAPES["qwen3-30b-a3b"]
    arguments = {"num_tokens": 1, "context_tokens": 1, "bytes_per_value": 2}
    expert = 2 * (4 * 768 + 2048)
    dense = ModelShape.from_config({
        "model_type": "qwen3", "num_hidden_layers": 48, "hidden_size": 2048, "head_dim": 128,
        "intermediate_size": 8 * 768, "num_attention_heads": 32, "num_key_value_heads": 4,
        "vocab_size": 1,
    })  # fmt: skip
    gathered = layer_activation_bytes(moe, **arguments) - layer_activation_bytes(dense, **arguments)
    assert gathered == 8 * expert - 2 * 4 * 8 * 768


def test_logits_stand_once_as_computed_and_three_times_in_float32():
    assert logits_bytes(rank_shape(LLAMA, 8), num_tokens=10, bytes_per_value=2) == (
        10 * (128_256 // 8) * 14
    )


def test_an_engine_peaks_in_a_layer_while_it_reads_and_in_the_logits_where_it_reads_little():
    arguments = {"num_responses": 256, "bytes_per_value": 2}
    layer = inference_activation_bytes(LLAMA, num_prefill_tokens=8192, **arguments)
    logits = inference_activation_bytes(LLAMA, num_prefill_tokens=1, **arguments)
    assert layer == 8192 * 2 * (2 * 8192 + 3 * 28_672)
    assert logits == 256 * 128_256 * 10
