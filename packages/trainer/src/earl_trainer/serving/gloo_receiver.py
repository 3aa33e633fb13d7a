"""vLLM's end of a weight transfer by gloo, which vLLM itself has no engine for.

Its workers import this module, as their `worker_extension_cls` is here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.distributed import ProcessGroupGloo
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.model_executor.model_loader.reload import (
    finalize_layerwise_reload,
    initialize_layerwise_reload,
)

from earl_trainer.serving.gloo_group import broadcast, find_store, join_group

BACKEND = "earl_gloo"


@dataclass
class GlooInitInfo(WeightTransferInitInfo):
    """Where the sender is found."""

    port: int
    num_processes: int
    timeout_s: float


@dataclass
class GlooUpdateInfo(WeightTransferUpdateInfo):
    """What will be sent, in this order."""

    names: list[str]
    dtypes: list[str]
    shapes: list[list[int]]


@final
class GlooReceiver(WeightTransferEngine[GlooInitInfo, GlooUpdateInfo]):
    """Takes over weights, named and shaped as in a model's files, that a learner broadcasts.

    They come to the CPU's memory; vLLM's own loading splits and packs them and brings them to the
    device. Source of the interface: vllm 0.32, vllm/distributed/weight_transfer/base.py.
    """

    init_info_cls = GlooInitInfo
    update_info_cls = GlooUpdateInfo

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        self._group: ProcessGroupGloo | None = None

    def init_transfer_engine(self, init_info: GlooInitInfo) -> None:
        """Join the sender's group."""
        ranks = self.parallel_config
        self._group = join_group(
            find_store(init_info.port, init_info.num_processes, timeout_s=init_info.timeout_s),
            rank=1 + ranks.data_parallel_index * ranks.world_size + ranks.rank,
            num_processes=init_info.num_processes,
            timeout_s=init_info.timeout_s,
        )

    def start_weight_update(self) -> None:
        """Lay the weights in use aside until all of a layer's new ones are there."""
        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Take over what is sent."""
        # Not the base's: it also waits for an accelerator, which there may not be.
        self.receive_weights(self.parse_update_info(update_info))
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: GlooUpdateInfo) -> None:
        """Load tensors in the order in which they come."""
        model: Any = self.model  # every model of vLLM's loads weights, which its type does not say
        model.load_weights(self._receive(update_info))

    def finish_weight_update(self) -> None:
        """Let the model compute with what has come."""
        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        """Leave the group."""
        self._group = None

    def _receive(self, update_info: GlooUpdateInfo) -> Iterator[tuple[str, Tensor]]:
        assert self._group is not None, "init_transfer_engine comes first"
        for name, dtype, shape in zip(
            update_info.names, update_info.dtypes, update_info.shapes, strict=True
        ):
            tensor = torch.empty(shape, dtype=getattr(torch, dtype), device="cpu")
            broadcast(self._group, tensor)
            yield name, tensor


class GlooExtension:
    """Adds nothing to vLLM's workers: naming it makes them import this module."""


WeightTransferEngineFactory.register_engine(BACKEND, GlooReceiver)
