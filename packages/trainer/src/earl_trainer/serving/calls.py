"""Requests on their way, which a pause brings to an end."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, final

from earl_trainer.rollout.engine import Completion, FinishReason

_AGAIN_S = 0.2
_NO_TOKENS = Completion(ids=(), logprobs=(), versions=(), finish_reason=FinishReason.ABORT)


@final
class RunningCalls:
    """The replies that a server is being asked for.

    Args:
        grace_s: How long a call that is to end may take to say how far it got.
    """

    def __init__(self, *, grace_s: float | int) -> None:
        self._grace_s = grace_s
        self._tasks: set[asyncio.Task[Completion]] = set()

    async def run(self, call: Coroutine[Any, Any, Completion]) -> Completion:
        """Return what a call returns; ABORT without tokens if `end` had to break it off."""
        task = asyncio.ensure_future(call)
        self._tasks.add(task)
        try:
            await asyncio.wait([task])
            return _NO_TOKENS if task.cancelled() else task.result()
        finally:
            self._tasks.discard(task)
            task.cancel()

    async def end(self, abort: Callable[[], Awaitable[Any]]) -> None:
        """Make the server abort all calls; return when none is left.

        Args:
            abort: Asks the server for it. It is repeated: a request may have been on its way past
                the first one, and would wait for the server to go on.
        """
        await abort()
        deadline_s = asyncio.get_running_loop().time() + self._grace_s
        while self._open() and asyncio.get_running_loop().time() < deadline_s:
            await asyncio.wait(self._open(), timeout=_AGAIN_S)
            if self._open():
                await abort()
        for task in self._open():
            task.cancel()

    def _open(self) -> list[asyncio.Task[Completion]]:
        return [task for task in self._tasks if not task.done()]
