"""From what people call a model to its shape: a folder, the catalogue, or a model hub."""

import json
import logging
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from earl_selector.specs import HUB_IDS, MODEL_SHAPES, ModelShape, catalogue_name

_CONFIG_FILE = "config.json"
_HUB_TIMEOUT_S = 10.0


def find_model_shape(source: str) -> ModelShape:
    """Return the shape of a model.

    Args:
        source: A folder that holds a `config.json`, such a file, a name of `MODEL_SHAPES`, or
            `owner/name` of a model hub. Hub ids of the catalogue are not looked up.

    Raises:
        ValueError: If there is no such model, it cannot be fetched, or its config is not
            understood.
    """
    path = Path(source).expanduser()
    if path.exists():
        return _read_shape(path / _CONFIG_FILE if path.is_dir() else path, name=source)
    name = catalogue_name(source)
    owner, slash, _ = source.rpartition("/")
    if name in HUB_IDS and (not slash or owner == HUB_IDS[name].split("/")[0]):
        return MODEL_SHAPES[name]
    if source.count("/") != 1 or source.startswith((".", "~", "/")):
        near = get_close_matches(name, MODEL_SHAPES, n=1)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"{source!r} is no folder, no model of the catalogue ({', '.join(MODEL_SHAPES)}) and "
            f"no owner/name of a hub{guess}"
        )
    return _read_shape(_fetch_config(source), name=source)


def _read_shape(path: Path, *, name: str) -> ModelShape:
    try:
        config: Any = json.loads(path.read_text())  # Any: parsed JSON
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"cannot read the model config {str(path)!r}: {error}") from error
    if not isinstance(config, Mapping):
        raise ValueError(f"the model config {str(path)!r} must hold an object")  # noqa: TRY004
    return ModelShape.from_config(config, name=name)


def _fetch_config(hub_id: str) -> Path:
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as error:
        raise ValueError(
            f"{hub_id!r} is not in the catalogue and huggingface_hub is not installed: install "
            "it, or give a folder with the model's config.json"
        ) from error
    # It tries again several times and warns each time; what matters is how it ends.
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return Path(hf_hub_download(hub_id, _CONFIG_FILE, etag_timeout=_HUB_TIMEOUT_S))
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"cannot fetch the config of {hub_id!r}: {reason}") from error
    finally:
        logger.setLevel(level)
