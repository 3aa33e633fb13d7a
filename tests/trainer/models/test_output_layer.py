import pytest
import torch
from earl_trainer.models.output_layer import find_output_layer, note_whole_logits
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

OPTIONS = {
    "gemma2": {"final_logit_softcapping": 3.0},
    "gemma3_text": {"final_logit_softcapping": 3.0},
    "cohere": {"logit_scale": 0.25},
    "cohere2": {"logit_scale": 0.25},
    "granite": {"logits_scaling": 4.0},
}
KINDS = [
    "cohere", "cohere2", "gemma", "gemma2", "gemma3_text", "gpt2", "granite", "llama", "mistral",
    "olmo2", "phi3", "qwen2", "qwen3", "smollm3",
]  # fmt: skip


def make(kind):
    config = AutoConfig.for_model(
        kind,
        vocab_size=13,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=32,
        initializer_range=0.5,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
        **({"n_head": 2, "n_embd": 16, "n_layer": 1} if kind == "gpt2" else {}),
        **OPTIONS.get(kind, {}),
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_layer_makes_the_models_own_logits(kind):
    model, ids = make(kind), torch.arange(1, 9)[None]
    layer = find_output_layer(model)
    assert layer is not None
    hidden = model.base_model(input_ids=ids).last_hidden_state
    logits = layer.scale * nn.functional.linear(hidden, layer.weight, layer.bias)
    if layer.softcap is not None:
        logits = layer.softcap * torch.tanh(logits / layer.softcap)
    torch.testing.assert_close(logits, model(input_ids=ids).logits)


def test_the_bias_belongs_to_the_layer(make_llama):
    model = make_llama()
    model.lm_head.bias = nn.Parameter(torch.ones(11))
    layer = find_output_layer(model)
    assert layer is not None
    assert layer.bias is model.lm_head.bias


def test_a_model_of_another_kind_makes_its_own_logits(make_llama):
    model = make_llama()
    assert note_whole_logits(model) is None
    model.config.model_type = "llama-with-a-twist"
    assert find_output_layer(model) is None
    note = note_whole_logits(model)
    assert note is not None
    assert "'llama-with-a-twist'" in note


def test_a_layer_that_is_split_over_ranks_is_left_to_the_model(make_llama):
    model = make_llama()
    model.lm_head.weight = nn.Parameter(model.lm_head.weight[:5].clone())
    assert find_output_layer(model) is None


def test_a_layer_that_was_replaced_is_left_to_the_model(make_llama):
    model = make_llama()
    model.lm_head = nn.Sequential(model.lm_head)
    assert find_output_layer(model) is None
