import asyncio
import time

import pytest
from earl_trainer.rollout.engine import Completion, FinishReason
from earl_trainer.serving.calls import RunningCalls

REPLY = Completion(ids=(5,), logprobs=(-1.0,), versions=(0,), finish_reason=FinishReason.ABORT)


def test_a_call_returns_what_it_returns_or_raises():
    async def fail():
        raise KeyError("x")

    async def reply():
        return REPLY

    async def main():
        calls = RunningCalls(grace_s=1.0)
        assert await calls.run(reply()) == REPLY
        with pytest.raises(KeyError):
            await calls.run(fail())

    asyncio.run(main())


def test_the_end_waits_for_what_calls_have_and_asks_again_for_one_that_came_late():
    async def main():
        aborted = asyncio.Event()
        num_aborts = 0

        async def late_call():
            await aborted.wait()
            return REPLY

        async def abort():
            nonlocal num_aborts
            num_aborts += 1
            if num_aborts == 2:
                aborted.set()

        calls = RunningCalls(grace_s=10.0)
        running = asyncio.ensure_future(calls.run(late_call()))
        await asyncio.sleep(0)
        await calls.end(abort)
        assert await running == REPLY
        assert num_aborts == 2

    asyncio.run(main())


def test_a_call_that_does_not_end_is_broken_off_without_tokens():
    async def endless():
        await asyncio.Event().wait()
        return REPLY

    async def abort():
        pass

    async def main():
        calls = RunningCalls(grace_s=0.1)
        running = asyncio.ensure_future(calls.run(endless()))
        await asyncio.sleep(0)
        start_s = time.monotonic()
        await calls.end(abort)
        reply = await running
        assert (reply.ids, reply.finish_reason) == ((), FinishReason.ABORT)
        assert time.monotonic() - start_s < 2.0

    asyncio.run(main())


def test_whoever_stops_waiting_for_a_call_ends_it():
    ended = []

    async def endless():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return REPLY

    async def main():
        running = asyncio.ensure_future(RunningCalls(grace_s=1.0).run(endless()))
        await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
        await asyncio.sleep(0)
        assert ended == [True]

    asyncio.run(main())
