import json
import logging
import sys
from types import SimpleNamespace

import pytest
from earl_selector import MODEL_SHAPES
from earl_selector.model_files import find_model_shape

CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 3,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_attention_heads": 6,
    "vocab_size": 100,
}


def test_a_folder_and_a_file_are_read(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    shape = find_model_shape(str(tmp_path))
    assert (shape.num_layers, shape.hidden_size, shape.name) == (3, 48, str(tmp_path))
    assert find_model_shape(str(path)).num_heads == 6


@pytest.mark.parametrize(
    "source", ["Qwen/Qwen2.5-72B-Instruct", "Qwen2.5-72B-Instruct", "qwen2.5-72b"]
)
def test_the_catalogue_is_found_by_name_and_by_hub_id(source, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert find_model_shape(source) == MODEL_SHAPES["qwen2.5-72b"]


def test_another_owners_model_of_a_known_name_is_looked_up(monkeypatch, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    asked = []

    def download(repository, file, *, etag_timeout):
        asked.append((repository, file, etag_timeout))
        return str(path)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(hf_hub_download=download))
    assert find_model_shape("me/Qwen2.5-72B").num_layers == 3
    assert asked == [("me/Qwen2.5-72B", "config.json", 10.0)]


def test_a_hub_that_cannot_be_reached_is_said_in_one_line(monkeypatch, caplog):
    logger = logging.getLogger("huggingface_hub")
    before = logger.level

    def download(repository, file, *, etag_timeout):
        logger.warning("again")
        raise OSError("no network\nand much more")

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(hf_hub_download=download))
    with pytest.raises(ValueError, match=r"^cannot fetch the config of 'me/model': no network$"):
        find_model_shape("me/model")
    assert not caplog.records
    assert logger.level == before


def test_without_a_hub_client_a_folder_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match="huggingface_hub is not installed: install it, or give"):
        find_model_shape("me/model")


@pytest.mark.parametrize("source", ["qwen2.5-72c", "./Qwen/Qwen2.5", "/no/such"])
def test_what_is_no_model_is_refused(source):
    with pytest.raises(ValueError, match="is no folder, no model of the catalogue") as caught:
        find_model_shape(source)
    assert "\n" not in str(caught.value)
    if source == "qwen2.5-72c":
        assert str(caught.value).endswith("did you mean 'qwen2.5-72b'?")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot read the model config"),
        ("[]", "must hold an object"),
        ('{"model_type": "gpt2"}', "model_type 'gpt2' is not known"),
    ],
)
def test_a_config_that_is_none_is_refused(content, message, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        find_model_shape(str(tmp_path))


def test_a_folder_without_a_config_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"cannot read the model config '.*config.json'"):
        find_model_shape(str(tmp_path))
