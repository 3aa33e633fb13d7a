"""A model's weights as files, for an engine whose processes read them."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import final

import torch
from transformers import PreTrainedModel


@final
class WeightsFolder:
    """The latest weights of a model in a temporary folder of its own.

    An output layer that shares the embedding's matrix is written as a matrix of its own, and the
    configuration says so: vLLM packs it for the CPU when it starts and, where it is shared, leaves
    it behind when weights are loaded anew. Source: vllm 0.32,
    vllm/model_executor/model_loader/reload/layerwise.py ("ParallelLMHead: Failed to load weights").

    Lifecycle: `write` as often as there are new weights, then `close`, which removes everything.

    Args:
        model: Whose weights are written.
        parent: An existing folder to make it in; None for the system's.
    """

    def __init__(self, model: PreTrainedModel, parent: Path | None = None) -> None:
        self._model = model
        self._root = tempfile.TemporaryDirectory(prefix="earl-weights-", dir=parent)
        self._num_written = 0
        self._latest: Path | None = None

    @property
    def latest(self) -> Path:
        """The folder that was written last."""
        assert self._latest is not None, "write comes first"
        return self._latest

    @torch.no_grad()
    def write(self) -> Path:
        """Write the weights as they are now; the previous folder stays until `drop_older`."""
        folder = Path(self._root.name) / str(self._num_written)
        self._num_written += 1
        state = dict(self._model.state_dict())
        name = self._tied_name()
        if name is not None:
            state[name] = state[name].clone()
        self._model.save_pretrained(folder, state_dict=state)
        if name is not None:
            _untie(folder / "config.json")
        self._latest = folder
        return folder

    def drop_older(self) -> None:
        """Remove all folders but the latest."""
        for folder in Path(self._root.name).iterdir():
            if folder != self._latest:
                shutil.rmtree(folder)

    def close(self) -> None:
        """Remove all of it."""
        self._root.cleanup()

    def _tied_name(self) -> str | None:
        """Return the name of the output matrix if it is the embedding's."""
        output = self._model.get_output_embeddings()
        if output is None or output.weight is not self._model.get_input_embeddings().weight:
            return None
        return next(
            f"{name}.weight" for name, module in self._model.named_modules() if module is output
        )


def _untie(path: Path) -> None:
    config = json.loads(path.read_text(encoding="utf-8"))
    config["tie_word_embeddings"] = False
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")
