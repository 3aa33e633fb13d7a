"""How layers are split."""

import pytest
import torch
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.parallel.tp_plan import (
    divides_vocabulary,
    find_layer_styles,
    list_parameters,
)
from transformers import GPT2Config, GPT2LMHeadModel, Phi3Config, Phi3ForCausalLM


def test_every_parameter_stands_there_once_with_the_dim_along_which_it_is_split(make_model):
    specs = {
        spec.name: spec for spec in list_parameters(Blueprint.of(make_model("biased")), (1, 2))
    }
    layer = "model.layers.1"
    assert specs[f"{layer}.self_attn.q_proj.weight"].sharded_dim == 0
    assert specs[f"{layer}.self_attn.q_proj.bias"].sharded_dim == 0
    assert specs[f"{layer}.self_attn.o_proj.weight"].sharded_dim == 1
    assert specs[f"{layer}.mlp.down_proj.weight"].sharded_dim == 1
    assert specs[f"{layer}.input_layernorm.weight"].sharded_dim is None
    assert specs["lm_head.weight"].sharded_dim == 0
    assert specs["model.embed_tokens.weight"].sharded_dim == 0
    assert specs["lm_head.weight"].shape == (40, 32)
    assert specs["lm_head.weight"].element_bytes == 4
    assert list(specs) == [name for name, _ in make_model("biased").named_parameters()]


def test_tied_embeddings_are_split_by_the_vocabulary_where_degrees_divide_it(make_model):
    def split(kind, degrees):
        specs = list_parameters(Blueprint.of(make_model(kind)), degrees)
        return next(each for each in specs if "embed_tokens" in each.name).sharded_dim

    assert split("tied", (1, 2, 4)) == 0
    assert split("odd", (1, 2)) is None
    assert split("tied", (1,)) is None, "nothing is split at tp 1"
    assert divides_vocabulary(40, (1, 2, 4))
    assert not divides_vocabulary(39, (1, 2))
    assert divides_vocabulary(39, (1, 3))


def test_kv_heads_must_be_split_evenly(make_model):
    with pytest.raises(ValueError, match="tp 8 does not divide the model's 4"):
        find_layer_styles(make_model("llama"), (1, 8))


def test_a_model_whose_plan_is_missing_or_unknown_runs_at_one_rank_only():
    gpt = GPT2LMHeadModel(GPT2Config(n_embd=16, n_head=4, n_layer=1, vocab_size=20, n_positions=8))
    assert find_layer_styles(gpt, (1,)) == {}
    with pytest.raises(ValueError, match=r"GPT2LMHeadModel .*tp 1"):
        find_layer_styles(gpt, (1, 2))
    with torch.device("meta"):
        packed = Phi3ForCausalLM(
            Phi3Config(
                hidden_size=16,
                intermediate_size=16,
                num_hidden_layers=1,
                num_attention_heads=4,
                num_key_value_heads=4,
                vocab_size=32,
                pad_token_id=0,
            )
        )
    with pytest.raises(ValueError, match=r"Phi3ForCausalLM splits .* in the style '"):
        find_layer_styles(packed, (1, 2))
