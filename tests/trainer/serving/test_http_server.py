"""What all servers behind HTTP do alike, with one that speaks to nobody."""

import asyncio
from pathlib import Path

import pytest
from earl_trainer.rollout.engine import Completion, FinishReason
from earl_trainer.serving.http import JsonClient
from earl_trainer.serving.http_server import HttpServer
from earl_trainer.serving.server import LostServerError, ReplyServer


class Echo(HttpServer):
    """Replies once it is let go, with as many tokens as it was given before a pause."""

    def __init__(self):
        super().__init__(
            JsonClient("http://echo", timeout_s=1.0),
            capacity_tokens=7,
            control_timeout_s=1.0,
            grace_s=1.0,
        )
        self.paused, self.loaded, self.fails = asyncio.Event(), [], False

    async def resume(self):
        self.paused.clear()

    async def _generate(self, request, version):
        await self.paused.wait()
        ids = [4, 5]
        return Completion(
            ids=ids, logprobs=[-1.0] * 2, versions=[version] * 2, finish_reason=FinishReason.ABORT
        )

    async def _abort_all(self):
        self.paused.set()

    async def _load(self, folder, version):
        if self.fails:
            raise LostServerError("it says no")
        self.loaded.append((folder.name, version))


def test_a_version_moves_once_the_weights_are_there_and_stays_with_what_was_asked_before(ask):
    async def main():
        server = Echo()
        assert isinstance(server, ReplyServer)
        assert (server.name, server.capacity_tokens, server.needs_folder) == (
            "http://echo",
            7,
            True,
        )
        await server.update_weights(Path("a"), 3)
        reply = asyncio.ensure_future(server.generate(ask(0)))
        await asyncio.sleep(0.01)
        await server.pause()
        assert list((await reply).versions) == [3, 3]
        server.fails = True
        with pytest.raises(LostServerError, match="it says no"):
            await server.update_weights(Path("b"), 4)
        assert list((await server.generate(ask(1))).versions) == [3, 3]
        server.fails = False
        await server.update_weights(Path("b"), 4)
        assert list((await server.generate(ask(2))).versions) == [4, 4]
        assert server.loaded == [("a", 3), ("b", 4)]
        await server.close()

    asyncio.run(main())
