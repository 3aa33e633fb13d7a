"""Messages arrive whole, in time, or not at all."""

import socket
import time
from threading import Thread

import pytest
from earl_trainer.rewards.frames import receive_frame, send_frame


@pytest.fixture
def ends():
    left, right = socket.socketpair()
    with left, right:
        yield left, right


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_a_message_arrives_as_it_was_sent(ends, size):
    left, right = ends
    body = bytes(range(256)) * (size // 256 + 1)
    thread = Thread(target=send_frame, args=(left, body[:size]), kwargs={"timeout_s": 10.0})
    thread.start()
    assert receive_frame(right, timeout_s=10.0, max_bytes=size) == body[:size]
    thread.join()


def test_the_time_is_that_of_the_whole_message(ends):
    left, right = ends

    def trickle():
        left.sendall((100).to_bytes(4, "big"))
        for _ in range(20):
            left.sendall(b"x")
            time.sleep(0.05)

    thread = Thread(target=trickle)
    thread.start()
    start_s = time.monotonic()
    with pytest.raises(TimeoutError):
        receive_frame(right, timeout_s=0.3, max_bytes=1000)
    assert time.monotonic() - start_s < 0.8
    thread.join()


def test_nobody_who_reads_is_a_timeout_and_nobody_at_all_an_end(ends):
    left, right = ends
    with pytest.raises(TimeoutError):
        send_frame(left, bytes(50_000_000), timeout_s=0.2)
    left.close()
    with pytest.raises(EOFError):
        receive_frame(right, timeout_s=1.0, max_bytes=100_000_000)


def test_a_message_longer_than_it_may_be_is_not_read(ends):
    left, right = ends
    send_frame(left, b"12345", timeout_s=1.0)
    with pytest.raises(EOFError, match="5 bytes, more than 4"):
        receive_frame(right, timeout_s=1.0, max_bytes=4)
