"""The ways that weights take into vLLM's processes."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, final, runtime_checkable

import torch
from torch.distributed import ProcessGroupGloo
from transformers import PreTrainedModel

from earl_trainer.rollout import vllm_library
from earl_trainer.serving.gloo_group import broadcast, join_group, open_store

_RECEIVER = "earl_trainer.serving.gloo_receiver"


@runtime_checkable
class WeightPath(Protocol):
    """One way; vLLM starts with the weights of a folder whatever the way of later ones.

    Lifecycle: `arguments` for the start, then `open`, then `send` for every later version.
    """

    @property
    def needs_folder(self) -> bool:
        """Whether `send` reads the folder."""
        ...

    def arguments(self) -> Mapping[str, Any]:
        """Return further `vllm.AsyncEngineArgs`."""
        ...

    async def open(self, engine: Any, *, tp: int) -> None:  # noqa: ANN401
        """Connect with an `AsyncLLM` that has been started."""
        ...

    async def send(self, engine: Any, folder: Path) -> None:  # noqa: ANN401
        """Give it new weights; returns once all of its ranks have them."""
        ...


@final
class FolderPath:
    """vLLM reads them from files."""

    needs_folder = True

    def arguments(self) -> Mapping[str, Any]:
        """Return nothing."""
        return {}

    async def open(self, engine: Any, *, tp: int) -> None:  # noqa: ANN401
        """Connect nothing."""

    async def send(self, engine: Any, folder: Path) -> None:  # noqa: ANN401
        """Let vLLM read the folder."""
        await engine.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})


@final
class TensorPath:
    """They are broadcast from a model in this process, by vLLM's weight-transfer interface.

    A matrix that two layers share is sent under both names. No folder is read or written after the
    start.

    Args:
        model: The weights as they are at each `send`.
        timeout_s: Longest time that a rank waits for a tensor.
    """

    needs_folder = False

    def __init__(self, model: PreTrainedModel, *, timeout_s: float | int) -> None:
        self._model = model
        self._timeout_s = timeout_s
        self._group: ProcessGroupGloo | None = None

    def arguments(self) -> Mapping[str, Any]:
        """Return what makes vLLM's ranks receivers."""
        return {
            "weight_transfer_config": {"backend": "earl_gloo"},
            "worker_extension_cls": f"{_RECEIVER}.GlooExtension",
        }

    async def open(self, engine: Any, *, tp: int) -> None:  # noqa: ANN401
        """Form a group with vLLM's ranks."""
        num_processes = 1 + tp
        store = open_store(num_processes, timeout_s=self._timeout_s)
        place = {
            "port": store.port,
            "num_processes": num_processes,
            "timeout_s": float(self._timeout_s),
        }
        joining = asyncio.to_thread(
            join_group, store, rank=0, num_processes=num_processes, timeout_s=self._timeout_s
        )
        self._group, _ = await asyncio.gather(joining, vllm_library.connect_transfer(engine, place))

    async def send(self, engine: Any, folder: Path) -> None:  # noqa: ANN401
        """Broadcast the model's weights; the folder is not read."""
        state = self._model.state_dict()
        content = {
            "names": list(state),
            "dtypes": [str(tensor.dtype).removeprefix("torch.") for tensor in state.values()],
            "shapes": [list(tensor.shape) for tensor in state.values()],
        }
        await engine.start_weight_update()
        await asyncio.gather(
            vllm_library.receive_weights(engine, content),
            asyncio.to_thread(self._broadcast, state),
        )
        await engine.finish_weight_update()

    @torch.no_grad()
    def _broadcast(self, state: Mapping[str, torch.Tensor]) -> None:
        assert self._group is not None, "open comes first"
        for tensor in state.values():
            broadcast(self._group, tensor.detach().cpu().contiguous())
