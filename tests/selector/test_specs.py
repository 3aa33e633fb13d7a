import pytest
import torch
from earl_selector import MODEL_SHAPES, DeviceSpec, ModelShape

LLAMA_CONFIG: dict[str, object] = {
    "model_type": "llama",
    "num_hidden_layers": 3,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}


@pytest.mark.parametrize(
    ("name", "num_parameters"),
    [
        ("llama-3.1-70b", 70_553_706_496),
        ("qwen2.5-72b", 72_706_203_648),
        ("smollm2-135m", 134_515_008),
    ],
)
def test_catalogued_shapes_have_the_published_parameter_counts(name, num_parameters):
    assert MODEL_SHAPES[name].num_parameters == num_parameters


@pytest.mark.parametrize("tie_embeddings", [False, True])
@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "qwen3"])
def test_parameter_count_equals_that_of_the_transformers_model(model_type, tie_embeddings):
    transformers = pytest.importorskip("transformers")
    values = {key: value for key, value in LLAMA_CONFIG.items() if key != "model_type"} | {
        "tie_word_embeddings": tie_embeddings
    }
    config = transformers.AutoConfig.for_model(model_type, **values)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    assert ModelShape.from_config(config.to_dict()).num_parameters == model.num_parameters()


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


@pytest.mark.parametrize("absent", [{}, {"num_key_value_heads": None, "head_dim": None}])
def test_absent_and_null_fields_take_the_defaults_of_transformers(absent):
    config = {key: value for key, value in LLAMA_CONFIG.items() if key != "num_key_value_heads"}
    shape = ModelShape.from_config(config | absent)
    assert (shape.num_kv_heads, shape.head_dim, shape.tie_embeddings) == (6, 8, False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model_type": "gpt2"},
            "the memory model knows model_type llama, mistral, qwen2, qwen3, got 'gpt2'",
        ),
        ({"vocab_size": None}, "vocab_size of the model config must be an integer, got None"),
        ({"hidden_size": "48"}, "hidden_size of the model config must be an integer, got '48'"),
        ({"attention_bias": True}, "attention_bias must be false"),
        ({"num_hidden_layers": 0}, "every size of a model shape must be >= 1"),
        ({"num_key_value_heads": 4}, "4 KV heads and 6 attention heads"),
    ],
)
def test_unusable_configs_are_refused_with_the_rule_and_the_value(change, message):
    with pytest.raises(ValueError, match=message):
        ModelShape.from_config(LLAMA_CONFIG | change)


def test_a_token_of_qwen_caches_163840_values():
    assert MODEL_SHAPES["qwen2.5-72b"].num_kv_values_per_token == 2 * 80 * 8 * 128 == 163_840


def test_device_without_memory_is_refused():
    with pytest.raises(ValueError, match="memory_bytes of a device must be >= 1, got 0"):
        DeviceSpec.cpu(0)
