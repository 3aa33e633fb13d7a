"""vLLM in processes of this run, one request at a time, interruptible by new weights."""

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar, final

from earl_trainer.rollout import vllm_library
from earl_trainer.rollout.engine import Completion, Request
from earl_trainer.rollout.process_tree import ProcessTree
from earl_trainer.rollout.vllm_reply import labelled_versions, read_completion
from earl_trainer.rollout.vllm_settings import VllmSettings
from earl_trainer.rollout.vllm_start import END_TIMEOUT_S, one_line, start_errors, watching
from earl_trainer.serving.server import LostServerError
from earl_trainer.serving.weight_paths import WeightPath
from earl_trainer.types import RunFailedError

T = TypeVar("T")

_POLL_S = 0.05
_LAST_WORDS_S = 2.0
_SHUT_DOWN_S = 1.0


@final
class VllmProcess:
    """A `ReplyServer` that is vLLM's `AsyncLLM`, started by the first weights.

        new --update_weights--> open --pause--> paused --update_weights--> paused --resume--> open
        any --close, or a failure--> ended

    - new: `generate` is refused, as nothing could.
    - open: replies run, each token labelled by vLLM itself with the version that emitted it.
    - paused: none runs, and what is asked for waits for `resume`. Caches are empty.
    - ended: everything but `close` raises `LostServerError`, also what was waiting.

    A reply is drawn from the whole vocabulary at the request's temperature, and its log-probs are
    those of that law.

    Args:
        settings: How vLLM is started.
        path: How later weights come to it.
        tp: Its tensor-parallel degree.
        name: What messages call it.
    """

    def __init__(
        self, settings: VllmSettings, path: WeightPath, *, tp: int = 1, name: str = "vLLM"
    ) -> None:
        self._settings = settings
        self._path = path
        self._tp = tp
        self._name = name
        self._processes = ProcessTree()
        self._engine: Any = None
        self._open = asyncio.Event()
        self._open.set()
        self._running: dict[str, asyncio.Future[Any]] = {}
        self._num_requests = 0
        self._end = ""

    @property
    def name(self) -> str:
        """What messages call it."""
        return self._name

    @property
    def capacity_tokens(self) -> int:
        """Context tokens that its cache holds; before the start, what the memory says."""
        if self._engine is None:
            return self._settings.memory.capacity_tokens(self._tp)
        cache = self._engine.vllm_config.cache_config
        # One block is never given out.
        return (cache.num_gpu_blocks - 1) * cache.block_size

    @property
    def needs_folder(self) -> bool:
        """Whether the next `update_weights` reads its folder."""
        return self._engine is None or self._path.needs_folder

    @property
    def pids(self) -> list[int]:
        """Its processes."""
        return self._processes.pids

    async def generate(self, request: Request) -> Completion:
        """Generate one reply under the weights in use; ABORT with the tokens so far if paused.

        Raises:
            LostServerError: If vLLM is gone, or does not answer within its timeout.
            RuntimeError: If it has no weights yet.
        """
        if self._engine is None and not self._end:
            raise RuntimeError(f"{self._name} generates nothing before update_weights")
        timeout_s = self._settings.timeouts.generate_s
        await self._until_open(timeout_s)
        output = await self._answer(self._reply(request), timeout_s=timeout_s)
        return read_completion(output, versions=labelled_versions(output))

    async def pause(self) -> None:
        """End all running replies as far as they got, and begin none until `resume`.

        Again is harmless.
        """
        self._check()
        self._open.clear()
        if self._engine is None:
            return
        timeout_s = self._settings.timeouts.call_s
        await self._answer(
            self._engine.pause_generation(mode="abort", clear_cache=True), timeout_s=timeout_s
        )
        await self._answer(self._end_replies(), timeout_s=timeout_s)

    async def update_weights(self, folder: Path, version: int) -> None:
        """Take over the weights of a model folder and forget every cache of older ones.

        If it fails, vLLM ends: which of its weights are new is not known.

        Args:
            folder: Only read if `needs_folder`.
            version: What tokens are labelled with from now on.

        Raises:
            LostServerError: If it has not acknowledged within its timeout.
            RuntimeError: If a reply is running.
        """
        self._check()
        if self._running:
            raise RuntimeError(
                f"{self._name} takes no weights in mid-reply: pause first, "
                f"{len(self._running)} are running"
            )
        was_open = self._open.is_set()
        self._open.clear()
        try:
            if self._engine is None:
                self._engine = await self._start(folder)
                work = self._begin(version)
            else:
                work = self._take_over(folder, version)
            await self._answer(work, timeout_s=self._settings.timeouts.call_s)
        except BaseException as error:
            lost = await self._lose(one_line(error))
            if isinstance(error, RunFailedError):
                raise lost from error
            raise
        if was_open:
            self._open.set()

    async def resume(self) -> None:
        """Begin replies again."""
        self._check()
        if self._engine is not None:
            await self._answer(
                self._engine.resume_generation(), timeout_s=self._settings.timeouts.call_s
            )
        self._open.set()

    async def close(self) -> None:
        """End vLLM, whatever it is doing; again is harmless."""
        await self._lose(f"{self._name} was closed")
        # Whoever has lost it meanwhile may not be done with that.
        await asyncio.to_thread(self._processes.end, timeout_s=END_TIMEOUT_S)

    async def _start(self, folder: Path) -> Any:  # noqa: ANN401 - vLLM's own class
        settings, tp, on_gpu = self._settings, self._tp, vllm_library.can_sleep()
        arguments = settings.arguments(tp, folder, on_gpu=on_gpu) | self._path.arguments()
        with (
            start_errors(tp),
            vllm_library.environment(settings.variables(tp, on_gpu=on_gpu)),
            watching(self._processes) as watch,
        ):
            starting = asyncio.ensure_future(vllm_library.start(arguments))
            # vLLM's own limit comes first.
            deadline_s = time.monotonic() + 2 * settings.timeouts.start_s
            while not starting.done():
                await asyncio.wait([starting], timeout=_POLL_S)
                watch()
                # What ends its processes makes vLLM give up.
                self._check()
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"no answer within {2 * settings.timeouts.start_s:g} s")
            return starting.result()

    async def _begin(self, version: int) -> None:
        await self._path.open(self._engine, tp=self._tp)
        await self._engine.update_weight_version(str(version))

    async def _take_over(self, folder: Path, version: int) -> None:
        await self._path.send(self._engine, folder)
        if not await self._engine.reset_prefix_cache():
            raise RunFailedError(f"{self._name} did not forget what it cached under older weights")
        await self._engine.update_weight_version(str(version))

    async def _until_open(self, timeout_s: float | int) -> None:
        # Again, as it may be paused anew before this one's turn.
        while not self._open.is_set():
            try:
                await asyncio.wait_for(self._open.wait(), timeout_s)
            except TimeoutError as error:
                raise LostServerError(
                    f"{self._name} was paused for more than {timeout_s:g} s"
                ) from error
        self._check()

    async def _reply(self, request: Request) -> Any:  # noqa: ANN401
        self._num_requests += 1
        key = str(self._num_requests)
        parameters = vllm_library.reply_parameters(request, self._settings.stop_ids)
        prompt = vllm_library.prompt(request.prompt_ids)
        task = asyncio.current_task()
        assert task is not None
        self._running[key] = task
        try:
            outputs = self._engine.generate(prompt, parameters, key)
            return [output async for output in outputs][-1]
        finally:
            del self._running[key]

    async def _end_replies(self) -> None:
        # Again and again: what has not come to vLLM yet cannot be aborted yet, and would begin
        # under the next weights.
        while self._running:
            await self._engine.abort(list(self._running))
            await asyncio.wait(list(self._running.values()), timeout=_POLL_S)

    async def _answer(self, work: Coroutine[Any, Any, T], *, timeout_s: float | int) -> T:
        """Wait for what vLLM does, as long as it lives."""
        task = asyncio.ensure_future(work)
        deadline_s = time.monotonic() + timeout_s
        try:
            while not task.done():
                self._check()
                if self._engine is not None and self._engine.errored:
                    # Who has just died may have said why.
                    await asyncio.wait([task], timeout=_LAST_WORDS_S)
                    break
                if time.monotonic() > deadline_s:
                    raise await self._lose(f"{self._name} did not answer within {timeout_s:g} s")
                await asyncio.wait([task], timeout=_POLL_S)
            return await self._result(task)
        finally:
            task.cancel()

    async def _result(self, task: asyncio.Future[T]) -> T:
        if not task.done():
            raise await self._lose(f"{self._name}'s processes are gone")
        try:
            return task.result()
        except vllm_library.lost_errors() as error:
            raise await self._lose(f"{self._name}'s processes are gone") from error
        except RunFailedError:
            raise
        except Exception as error:
            self._check()
            cause = one_line(error.__cause__ or error)
            raise RunFailedError(f"{self._name}: {cause}") from error

    def _check(self) -> None:
        if self._end:
            raise LostServerError(self._end)

    async def _lose(self, why: str) -> LostServerError:
        """End vLLM, and give what is to be said of it."""
        if not self._end:
            self._end = why
            self._open.set()
            if self._engine is not None:
                await vllm_library.shut_down(self._engine, timeout_s=_SHUT_DOWN_S)
            await asyncio.to_thread(self._processes.end, timeout_s=END_TIMEOUT_S)
        return LostServerError(self._end)
