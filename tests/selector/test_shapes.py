import pytest
import torch
from earl_selector import MODEL_SHAPES, ModelShape

LLAMA_CONFIG: dict[str, object] = {
    "model_type": "llama",
    "num_hidden_layers": 3,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}
EXPERTS: dict[str, object] = {
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24},
}


def build(model_type, changes):
    transformers = pytest.importorskip("transformers")
    values = {key: value for key, value in LLAMA_CONFIG.items() if key != "model_type"}
    config = transformers.AutoConfig.for_model(model_type, **(values | changes))
    with torch.device("meta"):
        return config, transformers.AutoModelForCausalLM.from_config(config)


@pytest.mark.parametrize("tie_embeddings", [False, True])
@pytest.mark.parametrize(
    "model_type",
    [
        "gemma",
        "gemma2",
        "gpt_neox",
        "granite",
        "llama",
        "mistral",
        "mixtral",
        "phi3",
        "qwen2",
        "qwen3",
        "qwen3_moe",
        "smollm3",
    ],
)
def test_parameter_count_equals_that_of_the_transformers_model(model_type, tie_embeddings):
    # Phi-3's token of padding lies far beyond so small a vocabulary; GPT-NeoX groups no heads.
    changes = {
        "num_key_value_heads": 6 if model_type == "gpt_neox" else 2,
        "tie_word_embeddings": tie_embeddings,
        "pad_token_id": 0,
        **EXPERTS.get(model_type, {}),
    }
    config, model = build(model_type, changes)
    assert ModelShape.from_config(config.to_dict()).num_parameters == model.num_parameters()


@pytest.mark.parametrize("model_type", ["llama", "qwen3"])
def test_biases_of_attention_are_counted(model_type):
    config, model = build(model_type, {"attention_bias": True})
    shape = ModelShape.from_config(config.to_dict())
    assert shape.num_parameters == model.num_parameters()
    plain, _ = build(model_type, {})
    assert shape.num_parameters > ModelShape.from_config(plain.to_dict()).num_parameters


def test_config_is_read_field_by_field():
    config = LLAMA_CONFIG | {"head_dim": 16, "tie_word_embeddings": True}
    assert ModelShape.from_config(config, name="mine") == ModelShape(
        name="mine",
        num_layers=3,
        hidden_size=48,
        intermediate_size=80,
        num_heads=6,
        num_kv_heads=2,
        head_dim=16,
        vocab_size=100,
        tie_embeddings=True,
        qkv_bias=False,
    )


# Sizes of the hub's config.json; the counts are sums done by hand.
PYTHIA_70M = {
    "model_type": "gpt_neox",
    "num_hidden_layers": 6,
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_attention_heads": 8,
    "vocab_size": 50304,
}
GEMMA_2_2B = {
    "model_type": "gemma2",
    "num_hidden_layers": 26,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 256_000,
}
PHI_3_MINI = {
    "model_type": "phi3",
    "num_hidden_layers": 32,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 32_064,
}


@pytest.mark.parametrize(
    ("config", "num_parameters"),
    [
        # 2 x 50,304 x 512; a layer 4 x 512^2 + 4 x 512, 2 x 512 x 2,048 + 2,048 + 512 and 4 x 512.
        (PYTHIA_70M, 51_511_296 + 6 * (1_050_624 + 2_099_712 + 2048) + 1024),
        # The embedding once; 2 x 2,304 x (2,048 + 1,024), 3 x 2,304 x 9,216 and four norms.
        (GEMMA_2_2B, 589_824_000 + 26 * (14_155_776 + 63_700_992 + 9216) + 2304),
        # 2 x 32,064 x 3,072; 4 x 3,072^2, 3 x 3,072 x 8,192 and two norms.
        (PHI_3_MINI, 197_001_216 + 32 * (37_748_736 + 75_497_472 + 6144) + 3072),
    ],
)
def test_models_off_the_llama_line_have_the_parameters_that_they_should(config, num_parameters):
    assert ModelShape.from_config(config).num_parameters == num_parameters


def test_an_unknown_model_type_is_refused_with_those_that_are_known():
    with pytest.raises(
        ValueError, match=r"^model_type 'new' is not known.*\(known: gemma, .*llama"
    ):
        ModelShape.from_config(LLAMA_CONFIG | {"model_type": "new"})


@pytest.mark.parametrize("absent", [{}, {"num_key_value_heads": None, "head_dim": None}])
def test_absent_and_null_fields_take_the_defaults_of_transformers(absent):
    config = {key: value for key, value in LLAMA_CONFIG.items() if key != "num_key_value_heads"}
    shape = ModelShape.from_config(config | absent)
    assert (shape.num_kv_heads, shape.head_dim, shape.tie_embeddings) == (6, 8, False)


def test_experts_are_read_with_their_own_width():
    shape = ModelShape.from_config(LLAMA_CONFIG | EXPERTS["qwen3_moe"])
    assert (shape.num_experts, shape.num_active_experts, shape.intermediate_size) == (4, 2, 24)
    # 3 x 48 x 24 = 3,456 weights for each expert of a layer.
    assert shape.count_layer_parameters(4) - shape.count_layer_parameters(3) == 3456


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": None}, "vocab_size of the model config must be an integer, got None"),
        ({"hidden_size": "48"}, "hidden_size of the model config must be an integer, got '48'"),
        ({"mlp_bias": True}, "mlp_bias must be absent, or parameters would be miscounted"),
        ({"kv_lora_rank": 512}, "kv_lora_rank must be absent"),
        ({"text_config": {}}, "a text_config has towers that would go uncounted"),
        ({"decoder_sparse_step": 2}, "got decoder_sparse_step 2"),
        (
            {"layer_types": ["full_attention", "linear_attention"]},
            r"every layer must cache keys and values, got layer_types \['linear_attention'\]",
        ),
        ({"num_hidden_layers": 0}, "every size of a model shape must be >= 1"),
        ({"num_key_value_heads": 4}, "4 KV heads and 6 attention heads"),
        (
            {"num_experts": 2, "num_experts_per_tok": 3},
            "a token passes at most all experts, got 3 of 2",
        ),
    ],
)
def test_unusable_configs_are_refused_with_the_rule_and_the_value(change, message):
    with pytest.raises(ValueError, match=message):
        ModelShape.from_config(LLAMA_CONFIG | change)


def test_gpt2_which_is_another_kind_of_model_is_refused():
    with pytest.raises(ValueError, match="model_type 'gpt2' is not known"):
        ModelShape.from_config({"model_type": "gpt2", "n_embd": 768, "n_layer": 12})


def test_a_token_of_qwen_caches_163840_values():
    assert MODEL_SHAPES["qwen2.5-72b"].num_kv_values_per_token == 2 * 80 * 8 * 128 == 163_840
