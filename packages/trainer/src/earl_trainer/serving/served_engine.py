"""The engine that generates on servers: in other processes, or on other machines."""

import queue
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from transformers import PreTrainedModel

from earl_trainer.rollout.background_loop import BackgroundLoop
from earl_trainer.rollout.engine import Completion, FinishReason, Request
from earl_trainer.rollout.reply import Reply
from earl_trainer.rollout.waves import final_tokens
from earl_trainer.rollout.weights_folder import WeightsFolder
from earl_trainer.serving.fleet import Fleet
from earl_trainer.serving.server import ReplyServer
from earl_trainer.types import RunFailedError

_POLL_S = 0.05
_CLOSE_TIMEOUT_S = 30.0
# What servers do is bounded step by step; this is for what is not theirs.
_SLACK_S = 30.0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """A reply that is not over, or has not been heard of."""

    reply: Reply
    answered: "Future[None]"


@final
class ServedEngine:
    """Replies from servers that follow the learner's weights through a folder.

    New weights may come in mid-reply: all servers pause, the weights are written once, every server
    reads them, and what has been emitted goes on under them as a longer prompt. The version moves
    when all have acknowledged. What a lost server was doing is asked of the others.

    Lifecycle: `load_weights` first; then `submit` and `advance`, again and again, `release` when an
    episode is over; or `generate`, which does this for requests that are all there; `close`. One
    thread calls all of it, except for `interrupt`.

    Args:
        model: The learner's, in this process.
        servers: Closed with this engine.
        stop_ids: Tokens that end a reply.
        max_context_tokens: Longest prompt and reply together.
        max_running: Replies that one server is asked for at once; more wait here.
        weights_dir: A folder that this process and all servers see under the same path, for the
            weights; None for a temporary one of this machine.
        timeout_s: Longest time that each of a pause, new weights, and going on may take.
        note: Is told in one line of lost servers.

    Raises:
        ValueError: If there are no servers, or a limit is below 1.

    Example:
        >>> engine = ServedEngine(model, servers, stop_ids=frozenset({2}), max_context_tokens=4096)
        >>> engine.load_weights(0)
        >>> replies = engine.generate(requests)
    """

    def __init__(
        self,
        model: PreTrainedModel,
        servers: Sequence[ReplyServer],
        *,
        stop_ids: frozenset[int],
        max_context_tokens: int,
        max_running: int = 256,
        weights_dir: Path | None = None,
        timeout_s: float | int = 300.0,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        if not servers:
            raise ValueError("an engine on servers needs at least one of them, got none")
        if max_context_tokens < 1 or max_running < 1:
            raise ValueError(
                "max_context_tokens and max_running must be at least 1, got "
                f"{max_context_tokens} and {max_running}"
            )
        self.tp = 1
        """Of every server as seen from here: how it spreads over devices is its own matter."""
        self.version = 0
        """Version of the weights that all servers use."""
        self._stop_ids = stop_ids
        self._max_context_tokens = max_context_tokens
        self._timeout_s = timeout_s
        self._note = note
        # Told by the loop's thread, passed on by the caller's.
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._weights = WeightsFolder(model, weights_dir)
        self._loop = BackgroundLoop()
        self._fleet = Fleet(
            servers,
            stop_ids=stop_ids,
            max_running=max_running,
            timeout_s=timeout_s,
            note=self._lines.put,
        )
        self._open: dict[int, _Open] = {}
        self._answered: queue.SimpleQueue[tuple[int, Future[None]]] = queue.SimpleQueue()
        self._interrupted = threading.Event()
        self._failure: RunFailedError | None = None
        self._is_closed = False

    @property
    def capacity_tokens(self) -> int:
        """Context tokens that all servers hold at once."""
        return self._fleet.capacity_tokens

    @property
    def resident_tokens(self) -> int:
        """Tokens of the contexts that are being extended, as far as is known here."""
        return sum(
            len(each.reply.request.prompt_ids) + len(each.reply.ids) for each in self._open.values()
        )

    def submit(self, request: Request) -> None:
        """Ask a server for a reply.

        Raises:
            ValueError: If it is larger than a context may be, empty, or the sequence is still being
                answered.
            RunFailedError: If the last weights were not taken over.
        """
        if not request.prompt_ids or request.max_new_tokens < 1:
            raise ValueError(
                "a request needs a prompt and max_new_tokens of at least 1, got "
                f"{len(request.prompt_ids)} tokens and {request.max_new_tokens}"
            )
        if final_tokens(request) > self._max_context_tokens:
            raise ValueError(
                f"a context of {final_tokens(request)} tokens does not fit: it may have "
                f"{self._max_context_tokens}"
            )
        number = request.sequence_id
        if number in self._open:
            raise ValueError(f"sequence {number} is still being answered")
        self._raise_failure()
        reply = Reply(request=request)
        answered = self._loop.start(self._fleet.answer(reply))
        self._open[number] = _Open(reply=reply, answered=answered)
        answered.add_done_callback(lambda future: self._answered.put((number, future)))

    def advance(self) -> list[tuple[int, Completion]]:
        """Wait a little for replies to end.

        Returns:
            (sequence_id, completion) of those that ended.

        Raises:
            RunFailedError: If no server is left, or the last weights were not taken over.
        """
        self._raise_failure()
        self._pass_notes_on()
        ended: list[tuple[int, Completion]] = []
        with suppress(queue.Empty):
            number, future = self._answered.get(timeout=_POLL_S if self._open else 0.0)
            while True:
                each = self._open.get(number)
                # Not one that was cancelled before.
                if each is not None and each.answered is future:
                    del self._open[number]
                    future.result()
                    ended.append((number, self._completion(each.reply)))
                number, future = self._answered.get_nowait()
        return ended

    def release(self, sequence_id: int) -> None:
        """Give up a conversation whose episode is over.

        Raises:
            ValueError: If it is still being answered.
        """
        if sequence_id in self._open:
            raise ValueError(f"sequence {sequence_id} is still being answered: cancel it first")
        self._loop.start(self._fleet.forget(sequence_id))

    def cancel(self, sequence_id: int) -> Completion:
        """End a reply as far as is known here; its conversation can go on from there.

        Tokens that a server has emitted since the last pause are not known and are lost.

        Raises:
            ValueError: If the sequence is not being answered.
        """
        if sequence_id not in self._open:
            raise ValueError(f"sequence {sequence_id} is not being answered")
        each = self._open.pop(sequence_id)
        self._run(self._fleet.stop(sequence_id))
        return self._completion(each.reply)

    def load_weights(self, version: int) -> None:
        """Have all servers take over the weights as `version`, also in mid-reply.

        Tokens, log-probs and versions emitted stay; caches of older weights are dropped.

        Raises:
            RunFailedError: With the name of a server that has not acknowledged in time: the version
                does not move, and nothing is generated until weights are taken over by all.
        """
        folder = self._weights.write() if self._fleet.needs_folder else self._weights.latest
        try:
            self._run(self._fleet.publish(folder, version), num_steps=3)
        except RunFailedError as error:
            self._failure = error
            raise
        self._failure = None
        self.version = version
        self._weights.drop_older()

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Generate one completion per request, in order; what an interrupt cuts ends with ABORT.

        Raises:
            ValueError: If replies are being generated already, or a request cannot be answered.
            RunFailedError: If no server is left, or the last weights were not taken over.
        """
        if self._open:
            raise ValueError(f"generate answers its requests alone: {len(self._open)} others run")
        self._interrupted.clear()
        ended: dict[int, Completion] = {}
        try:
            for request in requests:
                self.submit(request)
            while len(ended) < len(requests) and not self._interrupted.is_set():
                ended |= self.advance()
            if self._open:
                self._run(self._fleet.halt(), num_steps=2)
                ended |= {number: self.cancel(number) for number in tuple(self._open)}
                self._run(self._fleet.proceed())
        finally:
            for number in tuple(self._open):
                self.cancel(number)
        return [ended[request.sequence_id] for request in requests]

    def interrupt(self) -> None:
        """Make a running `generate` return, each reply as far as it got."""
        self._interrupted.set()

    def resize(self, tp: int) -> None:
        """Accept only the degree that servers have: their own.

        Raises:
            ValueError: If `tp` is not 1.
        """
        if tp != 1:
            raise ValueError(
                f"servers keep the degree they were started with: tp must be 1, got {tp}"
            )

    def close(self) -> None:
        """Let go of all servers and remove the weights' files; again is harmless."""
        self._open.clear()
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(TimeoutError):
            self._loop.run(self._fleet.close(), timeout_s=_CLOSE_TIMEOUT_S)
        self._loop.close()
        self._weights.close()

    def _completion(self, reply: Reply) -> Completion:
        return reply.completion(reply.finish_reason(self._stop_ids) or FinishReason.ABORT)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _pass_notes_on(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._note(self._lines.get_nowait())

    def _run(self, work: Coroutine[Any, Any, None], *, num_steps: int = 1) -> None:
        """Wait for the servers, of which each step takes its time at most."""
        try:
            self._loop.run(work, timeout_s=num_steps * self._timeout_s + _SLACK_S)
        except TimeoutError as error:
            raise RunFailedError(f"the servers: {error}") from error
        finally:
            self._pass_notes_on()
