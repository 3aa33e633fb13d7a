import asyncio
import threading
import time

import pytest
from earl_trainer.rollout.background_loop import BackgroundLoop


@pytest.fixture
def loop():
    loop = BackgroundLoop()
    yield loop
    loop.close()


async def answer(value, after_s=0.0):
    await asyncio.sleep(after_s)
    return value


def test_waits_for_the_answer(loop):
    assert loop.run(answer(3, after_s=0.05), timeout_s=5) == 3


def test_raises_what_the_work_raises(loop):
    async def fail():
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        loop.run(fail(), timeout_s=5)


def test_gives_up_after_the_timeout_and_cancels_the_work(loop):
    ended = threading.Event()

    async def endless():
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    start_s = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.2 s"):
        loop.run(endless(), timeout_s=0.2)
    assert time.monotonic() - start_s < 5
    assert ended.wait(5)


def test_notices_that_nobody_is_left_to_answer(loop, monkeypatch):
    monkeypatch.setattr("earl_trainer.rollout.background_loop._LAST_WORDS_S", 0.1)
    with pytest.raises(ConnectionError):
        loop.run(answer(0, after_s=60), timeout_s=60, is_alive=lambda: False)


def test_hears_the_last_words_of_who_has_died(loop):
    alive = threading.Event()
    alive.set()

    async def die():
        alive.clear()
        await asyncio.sleep(0.2)
        raise OSError("killed")

    with pytest.raises(OSError, match="killed"):
        loop.run(die(), timeout_s=60, is_alive=alive.is_set)


def test_close_ends_the_thread_and_may_be_repeated():
    before = set(threading.enumerate())
    loop = BackgroundLoop()
    (thread,) = set(threading.enumerate()) - before
    loop.close()
    loop.close()
    assert not thread.is_alive()


def test_work_that_is_begun_goes_on_while_nobody_waits_for_it(loop):
    begun = loop.start(answer(4, after_s=0.05))
    assert loop.run(answer(3), timeout_s=5) == 3
    assert begun.result(timeout=5) == 4
