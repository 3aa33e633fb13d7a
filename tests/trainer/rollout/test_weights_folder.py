import copy

import pytest
import torch
from earl_trainer.rollout.weights_folder import WeightsFolder
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM


@pytest.fixture
def weights(tiny_model):
    weights = WeightsFolder(copy.deepcopy(tiny_model))
    yield weights
    weights.close()


def test_what_is_written_is_the_model_with_an_output_layer_of_its_own(weights, tiny_model):
    folder = weights.write()
    state = load_file(folder / "model.safetensors")
    embedding = tiny_model.get_input_embeddings().weight
    assert torch.equal(state["lm_head.weight"], embedding)
    assert torch.equal(state["model.embed_tokens.weight"], embedding)
    assert not AutoConfig.from_pretrained(folder).tie_word_embeddings
    written = AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.tensor([[5, 6, 7]])
    assert torch.equal(written(ids).logits, tiny_model(ids).logits)


def test_the_model_itself_stays_tied(tiny_model):
    model = copy.deepcopy(tiny_model)
    weights = WeightsFolder(model)
    weights.write()
    weights.close()
    assert model.config.tie_word_embeddings
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_new_weights_get_a_new_folder_and_older_ones_go_when_told(tiny_model):
    model = copy.deepcopy(tiny_model)
    weights = WeightsFolder(model)
    first = weights.write()
    with torch.no_grad():
        model.get_input_embeddings().weight.add_(1.0)
    second = weights.write()
    assert first.is_dir()
    assert weights.latest == second
    weights.drop_older()
    assert not first.exists()
    state = load_file(second / "model.safetensors")
    assert torch.equal(state["lm_head.weight"], model.get_output_embeddings().weight)
    weights.close()
    assert not second.exists()


def test_the_folder_is_made_where_it_is_told_to(tiny_model, tmp_path):
    weights = WeightsFolder(tiny_model, tmp_path)
    assert tmp_path in weights.write().parents
    weights.close()
    assert list(tmp_path.iterdir()) == []
