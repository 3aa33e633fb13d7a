"""vLLM at one tensor-parallel degree, in processes of its own."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, final

import torch

from earl_trainer.rollout import vllm_library
from earl_trainer.rollout.background_loop import BackgroundLoop
from earl_trainer.rollout.engine import Completion, Request
from earl_trainer.rollout.process_tree import ProcessTree
from earl_trainer.rollout.vllm_reply import pick_logprobs, read_completion
from earl_trainer.rollout.vllm_settings import VllmSettings
from earl_trainer.rollout.vllm_start import END_TIMEOUT_S, one_line, start_errors, watching
from earl_trainer.types import RunFailedError

_POLL_S = 0.02


class LostVllmError(RunFailedError):
    """vLLM's processes are gone, or do not answer."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSize:
    """What a configuration has room for."""

    capacity_tokens: int
    """Context tokens that the whole cache holds."""
    max_context_tokens: int
    """Longest prompt and reply together."""


@final
class VllmConfiguration:
    """Replies and log-probs from vLLM's processes at one degree.

    A reply is drawn from the whole vocabulary at the request's temperature, and its log-probs are
    those of that law. Whatever vLLM cannot do ends the run in one line.

    Lifecycle: see `vllm_pool.Configuration`. Its processes end with this one, also those that are
    starting yet.

    Args:
        settings: Shared by all degrees.
        loop: Where vLLM is awaited.
        tp: The degree.
        folder: Of the weights.

    Raises:
        ValueError: If vLLM is not installed, or the memory does not hold a context.
        RunFailedError: If its processes do not start.
    """

    def __init__(
        self, settings: VllmSettings, loop: BackgroundLoop, *, tp: int, folder: Path
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._tp = tp
        self._num_calls = 0
        self._on_gpu = vllm_library.can_sleep()
        self._processes = ProcessTree()
        self._engine = self._start(folder)
        self._processes.watch(vllm_library.find_pids(self._engine))

    @property
    def tp(self) -> int:
        """Its degree."""
        return self._tp

    @property
    def sleeping_bytes(self) -> int:
        """What `sleep` lets go of at least: weights and cache, on all ranks together."""
        settings, tp = self._settings, self._tp
        return tp * (settings.memory.weights_bytes(tp) + settings.cache_bytes(tp))

    @property
    def size(self) -> CacheSize:
        """What it has room for; one block of the cache is never given out."""
        config = self._engine.vllm_config
        return CacheSize(
            capacity_tokens=(config.cache_config.num_gpu_blocks - 1)
            * config.cache_config.block_size,
            max_context_tokens=config.model_config.max_model_len,
        )

    @property
    def pids(self) -> list[int]:
        """Its processes."""
        return self._processes.pids

    def held_bytes(self) -> int:
        """Return the memory in use: of its processes, or of the whole devices it runs on."""
        if not self._on_gpu:
            return self._processes.held_bytes()
        infos = [torch.cuda.mem_get_info(device) for device in range(self._tp)]
        return sum(total_bytes - free_bytes for free_bytes, total_bytes in infos)

    def load(self, folder: Path) -> None:
        """Take over the weights in `folder`; what was cached under the old ones is forgotten."""
        self._call("collective_rpc", "reload_weights", kwargs={"weights_path": str(folder)})
        if not self._call("reset_prefix_cache"):
            raise RunFailedError("vLLM did not forget what it cached under older weights")

    def sleep(self) -> None:
        """Let go of weights and cache; the processes stay."""
        # Level 2 keeps no copy of the weights: the learner has newer ones by then.
        self._call("sleep", 2)

    def wake(self, folder: Path) -> None:
        """Take up memory again, with the weights in `folder`."""
        self._call("wake_up", ["weights"])
        self._call("collective_rpc", "reload_weights", kwargs={"weights_path": str(folder)})
        self._call("wake_up", ["kv_cache"])
        self._call("reset_prefix_cache")

    def close(self) -> None:
        """End its processes; again is harmless."""
        with suppress(TimeoutError):
            work = vllm_library.shut_down(self._engine, timeout_s=END_TIMEOUT_S / 2)
            self._loop.run(work, timeout_s=END_TIMEOUT_S)
        self._processes.end(timeout_s=END_TIMEOUT_S)

    def generate(
        self, requests: Sequence[Request], *, version: int, interrupted: Event
    ) -> list[Completion]:
        """Generate one completion per request, in order.

        Args:
            requests: Each fits `max_context_tokens`.
            version: Of the weights in use.
            interrupted: Once it is set, every reply ends as far as it got.
        """
        work = self._generate(requests, version, interrupted)
        return self._wait(work, timeout_s=self._settings.timeouts.generate_s)

    def score(self, contexts: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return, per context, the log-prob of every token but the first, at temperature 1."""
        return self._wait(self._score(contexts), timeout_s=self._settings.timeouts.generate_s)

    def _start(self, folder: Path) -> Any:  # noqa: ANN401 - vLLM's own class
        settings, tp = self._settings, self._tp
        arguments = settings.arguments(tp, folder, on_gpu=self._on_gpu)
        with (
            start_errors(tp),
            vllm_library.environment(settings.variables(tp, on_gpu=self._on_gpu)),
            watching(self._processes) as watch,
        ):
            # vLLM's own limit comes first, and ends its processes.
            return self._loop.run(
                vllm_library.start(arguments),
                timeout_s=2 * settings.timeouts.start_s,
                is_alive=watch,
            )

    async def _generate(
        self, requests: Sequence[Request], version: int, interrupted: Event
    ) -> list[Completion]:
        keys = self._new_keys(len(requests))
        stop_ids = self._settings.stop_ids
        replies = asyncio.gather(
            *(
                self._final(
                    key, request.prompt_ids, vllm_library.reply_parameters(request, stop_ids)
                )
                for key, request in zip(keys, requests, strict=True)
            )
        )
        while not replies.done():
            await asyncio.wait([replies], timeout=_POLL_S)
            # Again and again: what vLLM has not taken in yet cannot be aborted yet.
            if interrupted.is_set() and not replies.done():
                await self._engine.abort(keys)
        return [
            read_completion(output, versions=[version] * len(output.outputs[0].token_ids))
            for output in replies.result()
        ]

    async def _score(self, contexts: Sequence[Sequence[int]]) -> list[list[float]]:
        parameters = vllm_library.scoring_parameters()
        keys = self._new_keys(len(contexts))
        outputs = await asyncio.gather(
            *(
                self._final(key, context, parameters)
                for key, context in zip(keys, contexts, strict=True)
            )
        )
        return [
            pick_logprobs(output.prompt_logprobs[1:], context[1:])
            for output, context in zip(outputs, contexts, strict=True)
        ]

    async def _final(self, key: str, prompt_ids: Sequence[int], parameters: Any) -> Any:  # noqa: ANN401
        outputs = self._engine.generate(vllm_library.prompt(prompt_ids), parameters, key)
        return [output async for output in outputs][-1]

    def _new_keys(self, num: int) -> list[str]:
        self._num_calls += 1
        return [f"{self._num_calls}-{place}" for place in range(num)]

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        work = getattr(self._engine, method)(*args, **kwargs)
        return self._wait(work, timeout_s=self._settings.timeouts.call_s)

    def _wait(self, work: Any, *, timeout_s: float | int) -> Any:  # noqa: ANN401
        try:
            return self._loop.run(
                work, timeout_s=timeout_s, is_alive=lambda: not self._engine.errored
            )
        except vllm_library.lost_errors() as error:
            self._processes.end(timeout_s=END_TIMEOUT_S)
            raise LostVllmError(f"vLLM's processes at tp {self._tp} are gone") from error
        except TimeoutError as error:
            self._processes.end(timeout_s=END_TIMEOUT_S)
            raise LostVllmError(f"vLLM at tp {self._tp}: {error}") from error
        except Exception as error:
            cause = one_line(error.__cause__ or error)
            raise RunFailedError(f"vLLM at tp {self._tp}: {cause}") from error
