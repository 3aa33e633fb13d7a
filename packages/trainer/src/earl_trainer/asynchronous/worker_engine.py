"""The engine of a process that generates all the time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from earl_trainer.config import RunConfig
from earl_trainer.engines import make_vllm_settings
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.engine import Engine
from earl_trainer.rollout.streaming_collector import StreamingGenerator
from earl_trainer.rollout.streaming_engine import StreamingEngine
from earl_trainer.serving.assembly import make_served_engine, servers_of_worker
from earl_trainer.serving.served_engine import ServedEngine


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What a worker is made from."""

    config: RunConfig
    blueprint: Blueprint
    tokenizer: PreTrainedTokenizerBase
    capacity_tokens: int
    """Context tokens that it may hold at once."""
    worker: int = 0
    """Its number among the run's."""
    num_workers: int = 1
    """How many the run has."""
    num_threads: int = 1
    """That it computes with."""


@runtime_checkable
class WorkerEngine(Engine, StreamingGenerator, Protocol):
    """An engine that a worker plays with: `load_weights` may come in mid-reply."""

    @property
    def resident_tokens(self) -> int:
        """Tokens of the contexts it holds."""
        ...


def make_streaming_engine(settings: WorkerSettings, model: PreTrainedModel) -> WorkerEngine:
    """Make the engine that the config names.

    Args:
        settings: Of the worker.
        model: What the learner's weights are copied into, on `weights_device`.
    """
    return _KINDS[settings.config.rollout.engine].make(settings, model)


def weights_device(config: RunConfig) -> torch.device:
    """Return where a worker keeps the learner's weights: where it computes, if it does itself."""
    computes = _KINDS[config.rollout.engine].computes_here
    return torch.device("cuda" if computes and torch.cuda.is_available() else "cpu")


def _make_embedded(settings: WorkerSettings, model: PreTrainedModel) -> WorkerEngine:
    return StreamingEngine(
        model,
        stop_ids=ChatFormat(settings.tokenizer).stop_ids,
        capacity_tokens=settings.capacity_tokens,
        max_context_tokens=settings.config.rollout.max_context_tokens,
    )


def _make_vllm(settings: WorkerSettings, model: PreTrainedModel) -> WorkerEngine:
    # Only whoever asks for vLLM has to have it.
    from earl_trainer.serving.vllm_process import VllmProcess
    from earl_trainer.serving.weight_paths import FolderPath, TensorPath

    rules = settings.config.asynchronous
    stop_ids = ChatFormat(settings.tokenizer).stop_ids
    vllm = make_vllm_settings(
        settings.config, model, stop_ids=stop_ids, tp=1, num_threads=settings.num_threads
    )
    path = (
        FolderPath()
        if rules.vllm_weights == "disk"
        else TensorPath(model, timeout_s=vllm.timeouts.call_s)
    )
    return ServedEngine(
        model,
        [VllmProcess(vllm, path)],
        stop_ids=stop_ids,
        max_context_tokens=settings.config.rollout.max_context_tokens,
        # The first weights start it.
        timeout_s=vllm.timeouts.start_s + vllm.timeouts.call_s,
    )


def _make_served(settings: WorkerSettings, model: PreTrainedModel) -> WorkerEngine:
    config = settings.config
    return make_served_engine(
        config,
        model,
        servers_of_worker(
            config.rollout.servers, settings.worker, num_workers=settings.num_workers
        ),
        stop_ids=ChatFormat(settings.tokenizer).stop_ids,
        capacity_tokens=settings.capacity_tokens,
    )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """One way to generate."""

    make: Callable[[WorkerSettings, PreTrainedModel], WorkerEngine]
    computes_here: bool
    """Whether with the worker's own copy of the model."""


_KINDS: Mapping[str, _Kind] = {
    "transformers": _Kind(make=_make_embedded, computes_here=True),
    "vllm": _Kind(make=_make_vllm, computes_here=False),
    "openai": _Kind(make=_make_served, computes_here=False),
}
