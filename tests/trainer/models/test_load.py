"""Where a model's name leads, and what is said when it leads nowhere."""

import shutil

import pytest
import torch
from earl_trainer.config import ModelConfig
from earl_trainer.models.load import check_model_name, load_folder, load_model
from transformers import AutoModelForCausalLM, AutoTokenizer

SMALL = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_positions": 64, "device": "cpu"}


@pytest.fixture
def saved(tmp_path, tiny_model, tiny_tokenizer):
    tiny_model.save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def logits_of(model, tokenizer):
    ids = tokenizer("1 2 3 X O [5]", return_tensors="pt").input_ids
    with torch.no_grad():
        return model(input_ids=ids).logits


def test_a_saved_folder_gives_the_same_logits_and_chat_template(saved, tiny_model, tiny_tokenizer):
    loaded = load_folder(saved, device="cpu")
    by_name = AutoModelForCausalLM.from_pretrained(saved)

    expected = logits_of(tiny_model, tiny_tokenizer)
    assert torch.equal(logits_of(loaded.model, loaded.tokenizer), expected)
    assert torch.equal(logits_of(by_name, AutoTokenizer.from_pretrained(saved)), expected)
    assert loaded.tokenizer.chat_template == tiny_tokenizer.chat_template
    assert loaded.tokenizer.get_vocab() == tiny_tokenizer.get_vocab()
    assert not loaded.model.training


def test_a_folder_is_a_model_by_its_path(saved, tic_tac_toe, tiny_model, tiny_tokenizer):
    config = ModelConfig(name=str(saved), device="cpu", dtype="bfloat16")
    loaded = load_model(config, tic_tac_toe, seed=0)

    assert loaded.model.dtype is torch.bfloat16
    weight = loaded.model.get_input_embeddings().weight
    assert torch.equal(weight, tiny_model.get_input_embeddings().weight.bfloat16())


def test_a_folder_is_loaded_in_the_precision_it_was_written_in(tmp_path, tiny_tokenizer, saved):
    AutoModelForCausalLM.from_pretrained(saved, dtype=torch.bfloat16).save_pretrained(
        tmp_path / "b"
    )
    tiny_tokenizer.save_pretrained(tmp_path / "b")

    assert load_folder(tmp_path / "b", device="cpu").model.dtype is torch.bfloat16
    assert load_folder(saved, device="cpu").model.dtype is torch.float32


def test_the_tiny_model_follows_config_and_seed(tic_tac_toe):
    def build(seed):
        config = ModelConfig(**SMALL)
        return load_model(config, tic_tac_toe, seed=seed)

    first, again, other = build(0), build(0), build(1)

    assert not first.model.training
    assert first.model.config.hidden_size == 16
    assert first.model.config.max_position_embeddings == 64
    assert torch.equal(*(logits_of(each.model, each.tokenizer) for each in (first, again)))
    assert not torch.equal(*(logits_of(each.model, each.tokenizer) for each in (first, other)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tinny", "unknown model 'tinny'; did you mean 'tiny'?"),
        ("smollm2-135m", "unknown model 'smollm2-135m'; did you mean 'smollm2-135m-instruct'?"),
        ("/no/such/folder", "unknown model '/no/such/folder'"),
        ("./no-such", "unknown model './no-such'"),
    ],
)
def test_a_name_that_is_no_model_is_refused_with_what_there_is(name, message):
    with pytest.raises(ValueError, match="model") as refusal:
        check_model_name(name)

    assert str(refusal.value).startswith(message)
    assert "or a folder with a config.json, or owner/name of a model hub" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_folder_without_a_config_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^the model folder '.*' holds no config\.json$"):
        check_model_name(str(tmp_path))


def test_a_folder_beside_models_is_taken_for_a_slip_of_the_pen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "model").mkdir(parents=True)
    (tmp_path / "runs" / "model" / "config.json").write_text("{}")

    with pytest.raises(ValueError, match="did you mean 'runs/model'"):
        check_model_name("runs/modle")
    check_model_name("run/model")


@pytest.mark.parametrize("name", ["tiny", "smollm2-135m-instruct", "owner/model"])
def test_names_that_may_be_models_pass(name):
    check_model_name(name)


@pytest.mark.parametrize(
    "config", ["{}", '{"a', '{"model_type": "llama"}', '{"model_type": "no-such"}']
)
def test_a_folder_that_cannot_be_loaded_is_refused_in_one_line(tmp_path, config):
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ValueError, match=r"^cannot load the model ") as refusal:
        load_folder(tmp_path, device="cpu")

    assert str(tmp_path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"no weights at all"])
def test_a_folder_whose_weights_are_broken_is_refused_in_one_line(saved, tmp_path, content):
    folder = tmp_path / "broken"
    shutil.copytree(saved, folder)
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=r"^cannot load the model ") as refusal:
        load_folder(folder, device="cpu")

    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("device", ["cdua", "xpu:7"])
def test_a_device_that_is_not_there_is_refused_in_one_line(saved, device):
    with pytest.raises(ValueError, match=f"^model.device '{device}' cannot be used: ") as refusal:
        load_folder(saved, device=device)

    assert "\n" not in str(refusal.value)
