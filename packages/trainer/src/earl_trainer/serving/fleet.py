"""Servers that share the replies of an engine, and change their weights together."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from earl_trainer.rollout.engine import FinishReason, Request
from earl_trainer.rollout.reply import Reply
from earl_trainer.seeding import derive_seed
from earl_trainer.serving.server import LostServerError, ReplyServer
from earl_trainer.types import RunFailedError


@final
@dataclass(slots=True, kw_only=True, eq=False)
class _Place:
    """A server that has not been lost, and what it is doing."""

    server: ReplyServer
    room: asyncio.Semaphore
    num_asked: int = 0
    """Replies that run there or wait for room."""


@final
class Fleet:
    """Brings replies to their end on whatever servers there are; runs on one event loop.

        answer    waits for the gate and for room, then for a server; again until the reply is over
        publish   closes the gate, pauses all servers, waits until no server is being asked;
                  every server takes the weights over; opens the gate
        a loss    whatever waits for that server fails, and is asked of another

    A conversation stays with its server, which has read it, until there are new weights.

    Args:
        servers: Which have no weights yet.
        stop_ids: Tokens that end a reply.
        max_running: Replies that one server is asked for at once.
        timeout_s: Longest time that a pause, new weights or going on may take.
        note: Is told in one line of lost servers.
    """

    def __init__(
        self,
        servers: Sequence[ReplyServer],
        *,
        stop_ids: Collection[int],
        max_running: int,
        timeout_s: float | int,
        note: Callable[[str], None],
    ) -> None:
        self._places = [
            _Place(server=server, room=asyncio.Semaphore(max_running)) for server in servers
        ]
        self._all = tuple(servers)
        self._stop_ids = stop_ids
        self._timeout_s = timeout_s
        self._note = note
        self._gate = asyncio.Event()
        self._has_weights = False
        self._num_generating = 0
        self._nobody_generates = asyncio.Event()
        self._nobody_generates.set()
        self._homes: dict[int, _Place] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._end: RunFailedError | None = None

    @property
    def capacity_tokens(self) -> int:
        """Context tokens that the servers hold at once, without those that are lost."""
        return sum(place.server.capacity_tokens for place in self._places)

    @property
    def needs_folder(self) -> bool:
        """Whether a server reads the folder of the next weights."""
        return any(place.server.needs_folder for place in self._places)

    async def answer(self, reply: Reply) -> None:
        """Extend a reply, in place, until it is over.

        Raises:
            RunFailedError: If no server is left, or one ends a reply that is not over.
        """
        task, number = asyncio.current_task(), reply.request.sequence_id
        assert task is not None
        self._tasks[number] = task
        try:
            while reply.finish_reason(self._stop_ids) is None:
                await self._gate.wait()
                await self._extend(reply, self._home(number))
        finally:
            del self._tasks[number]

    async def stop(self, sequence_id: int) -> None:
        """Let go of a reply, if it is not over; what a server has of it meanwhile is lost."""
        task = self._tasks.get(sequence_id)
        if task is not None:
            task.cancel()
            await asyncio.wait([task], timeout=self._timeout_s)

    async def forget(self, sequence_id: int) -> None:
        """Give a conversation's place up."""
        self._homes.pop(sequence_id, None)

    async def publish(self, folder: Path, version: int) -> None:
        """Have all servers take weights over; replies that run go on under them.

        Raises:
            RunFailedError: With the name of a server that did not; none generates any more then,
                until weights are published that all take over.
        """
        self._require_a_server()
        if self._has_weights:
            await self.halt()
        self._has_weights = True
        results = await asyncio.gather(
            *(self._update(place, folder, version) for place in self._places),
            return_exceptions=True,
        )
        for result in results:
            if result is not None:
                raise result
        self._homes.clear()
        await self.proceed()

    async def halt(self) -> None:
        """End all replies as far as they got, and begin none; they have what servers had of them.

        Raises:
            RunFailedError: If no server is left, or one goes on.
        """
        self._gate.clear()
        await self._all_do(lambda server: server.pause())
        try:
            await asyncio.wait_for(self._nobody_generates.wait(), self._timeout_s)
        except TimeoutError as error:
            raise RunFailedError(f"replies go on {self._timeout_s:g} s after a pause") from error

    async def proceed(self) -> None:
        """Begin replies again.

        Raises:
            RunFailedError: If no server is left.
        """
        await self._all_do(lambda server: server.resume())
        self._gate.set()

    async def close(self) -> None:
        """Let go of all servers, lost ones included."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*(server.close() for server in self._all), return_exceptions=True)

    def _home(self, sequence_id: int) -> _Place:
        """Return the place of a conversation; of a new one, where there is least to do."""
        self._require_a_server()
        home = self._homes.get(sequence_id)
        if home is None:
            home = min(self._places, key=lambda place: place.num_asked)
            self._homes[sequence_id] = home
        return home

    async def _extend(self, reply: Reply, place: _Place) -> None:
        """Ask a server for the rest of a reply, if it is still there when there is room."""
        place.num_asked += 1
        try:
            async with place.room:
                # While it waited, there may have been a pause, or the loss of the server.
                if not self._gate.is_set() or place not in self._places:
                    return
                await self._ask(reply, place)
        finally:
            place.num_asked -= 1

    async def _ask(self, reply: Reply, place: _Place) -> None:
        self._num_generating += 1
        self._nobody_generates.clear()
        try:
            completion = await place.server.generate(_rest(reply))
        except LostServerError as error:
            self._lose(place, error)
            return
        except (LookupError, TypeError, ValueError) as error:
            raise RunFailedError(f"{place.server.name} answers unreadably: {error!r}") from error
        finally:
            self._num_generating -= 1
            if not self._num_generating:
                self._nobody_generates.set()
        reply.ids.extend(completion.ids)
        reply.logprobs.extend(completion.logprobs)
        reply.versions.extend(completion.versions)
        is_over = reply.finish_reason(self._stop_ids) is not None
        if not is_over and completion.finish_reason is not FinishReason.ABORT:
            raise RunFailedError(
                f"{place.server.name} ended a reply ({completion.finish_reason}) at "
                f"{len(reply.ids)} of {reply.request.max_new_tokens} tokens without a token that "
                "ends it"
            )

    async def _update(self, place: _Place, folder: Path, version: int) -> RunFailedError | None:
        """Return why a server has not taken weights over, if it has not."""
        name = place.server.name
        try:
            await asyncio.wait_for(place.server.update_weights(folder, version), self._timeout_s)
        except TimeoutError:
            why = f"no answer within {self._timeout_s:g} s"
        except RunFailedError as error:
            why = str(error)
        else:
            return None
        return RunFailedError(f"{name} has not taken over the weights of version {version}: {why}")

    async def _all_do(self, action: Callable[[ReplyServer], Awaitable[None]]) -> None:
        """Have all servers do something at the same time; who does not answer is lost."""

        async def do(place: _Place) -> None:
            try:
                await asyncio.wait_for(action(place.server), self._timeout_s)
            except TimeoutError:
                why = f"{place.server.name} does not answer within {self._timeout_s:g} s"
                self._lose(place, LostServerError(why))
            except LostServerError as error:
                self._lose(place, error)

        await asyncio.gather(*(do(place) for place in tuple(self._places)))

    def _require_a_server(self) -> None:
        if self._end is not None:
            raise self._end

    def _lose(self, place: _Place, error: LostServerError) -> None:
        """Do without a server; what it was asked for is asked of the others."""
        if place in self._places:
            self._places.remove(place)
            self._homes = {key: home for key, home in self._homes.items() if home is not place}
            if self._places:
                self._note(f"{error}; {len(self._places)} others take over what it was doing")
        if not self._places:
            self._end = self._end or RunFailedError(f"{error}; no server is left")
            raise self._end from error


def _rest(reply: Reply) -> Request:
    """Ask for what a reply lacks, drawn from a stream of its own."""
    request, num_emitted = reply.request, len(reply.ids)
    if not num_emitted:
        return request
    return replace(
        request,
        prompt_ids=[*request.prompt_ids, *reply.ids],
        max_new_tokens=request.max_new_tokens - num_emitted,
        seed=derive_seed(request.seed, num_emitted),
    )
