"""Models that can be split two and four ways."""

import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

_SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 128,
}
_KINDS = {
    "llama": (LlamaConfig, LlamaForCausalLM, {"vocab_size": 40, "tie_word_embeddings": False}),
    "tied": (LlamaConfig, LlamaForCausalLM, {"vocab_size": 40, "tie_word_embeddings": True}),
    "odd": (LlamaConfig, LlamaForCausalLM, {"vocab_size": 39, "tie_word_embeddings": True}),
    "biased": (Qwen2Config, Qwen2ForCausalLM, {"vocab_size": 40, "tie_word_embeddings": False}),
    "normed": (
        Qwen3Config,
        Qwen3ForCausalLM,
        {"vocab_size": 40, "head_dim": 8, "tie_word_embeddings": True},
    ),
}


def make(kind):
    config, model, own = _KINDS[kind]
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(7)
        made = model(config(**_SIZES, **own)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            # Large enough that a shard in the wrong place shows.
            parameter.add_(0.05 * torch.arange(parameter.numel()).view(parameter.shape).sin())
    return made


@pytest.fixture(params=list(_KINDS))
def kind(request):
    return request.param


@pytest.fixture
def make_model():
    return make


@pytest.fixture
def all_models():
    return {kind: make(kind) for kind in _KINDS}
