"""An event loop in a thread of its own, for a library that can only be awaited."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar, final

T = TypeVar("T")

_POLL_S = 0.5
_LAST_WORDS_S = 5.0


@final
class BackgroundLoop:
    """Runs coroutines for callers that wait for them.

    Lifecycle: made running, ended by `close`.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="earl-background-loop", daemon=True
        )
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin work that somebody else may wait for."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(
        self,
        work: Coroutine[Any, Any, T],
        *,
        timeout_s: float | int,
        is_alive: Callable[[], bool] = lambda: True,
    ) -> T:
        """Wait for what `work` returns or raises.

        Args:
            work: Is cancelled if it takes too long.
            timeout_s: Longest time to wait.
            is_alive: Whether whoever is to answer still can; asked now and then.

        Raises:
            TimeoutError: If it takes longer.
            ConnectionError: If nobody is left to answer.
        """
        future = self.start(work)
        end_s = time.monotonic() + timeout_s
        while not future.done() and is_alive():
            rest_s = end_s - time.monotonic()
            if rest_s <= 0:
                future.cancel()
                raise TimeoutError(f"no answer within {timeout_s:g} s")
            wait([future], timeout=min(_POLL_S, rest_s))
        # Who has just died may have said why.
        wait([future], timeout=_LAST_WORDS_S)
        if not future.done():
            future.cancel()
            raise ConnectionError("nobody is left to answer")
        return future.result()

    def close(self) -> None:
        """End the loop and what still waits in it; again is harmless."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._cancel_all)
        self._thread.join(timeout=_LAST_WORDS_S)
        if not self._thread.is_alive():
            self._loop.close()

    def _cancel_all(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        # What is cancelled gets a turn to end in.
        self._loop.call_later(0.1, self._loop.stop)
