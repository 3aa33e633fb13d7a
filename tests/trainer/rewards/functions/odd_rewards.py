"""Reward functions as users write them, most of them badly."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

CALLS = []


def length(transcript):
    return float(sum(map(len, transcript.replies)))


def minus_tokens(transcript):
    return -sum(transcript.reply_tokens)


def echo(transcript):
    """The reply is a number."""
    return float(transcript.replies[0])


def count_calls(transcript):
    CALLS.append(transcript)
    return len(CALLS)


def own_pid(transcript):
    return os.getpid()


def sleep(transcript):
    """So long as the reply says."""
    time.sleep(float(transcript.replies[0]))
    return 1.0


def spin(transcript):
    while True:
        pass


def hog_memory(transcript):
    hoard = []
    while True:
        hoard.append(bytearray(16 * 1024**2))


def exit_at_once(transcript):
    os.write(1, b"last words\n")
    os._exit(3)


def fault(transcript):
    ctypes.string_at(0)


def kill_itself(transcript):
    os.kill(os.getpid(), signal.SIGKILL)


def kill_itself_once(transcript):
    """The reply names a file that is there the second time."""
    path = Path(transcript.replies[0])
    if path.exists():
        return 7.0
    path.touch()
    os.kill(os.getpid(), signal.SIGKILL)
    return 0.0


def fail(transcript):
    raise ValueError("no such\nmove")


def exit_python(transcript):
    sys.exit("enough")


def return_nan(transcript):
    return float("nan")


def return_none(transcript):
    return None


def return_true(transcript):
    return True


def return_text(transcript):
    return "1.0"


def lengths(transcript):
    """One number for each reply."""
    return [len(reply) for reply in transcript.replies]


def lengths_as_array(transcript):
    return np.array(lengths(transcript), dtype=np.float32)


def lengths_as_tuple(transcript):
    return (*map(np.int64, lengths(transcript)),)


def one_too_many(transcript):
    return [1.0, *lengths(transcript)]


def return_matrix(transcript):
    return np.zeros((1, 1))


def return_an_endless_list(transcript):
    class Endless(list):
        def __iter__(self):
            raise RuntimeError("no end")

    return Endless(0.0 for _ in transcript.replies)


def return_nan_for_a_reply(transcript):
    return [float("nan") for _ in transcript.replies]


def return_huge(transcript):
    return [1e308 for _ in transcript.replies]


def return_text_for_a_reply(transcript):
    return ["1.0" for _ in transcript.replies]


def answer_for_itself(transcript):
    """Send what the reply says in the place of an answer."""
    text = transcript.replies[0].encode()
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, len(text).to_bytes(4, "big") + text)
        except OSError:
            continue
    time.sleep(60)


def flood(transcript):
    while True:
        os.write(1, b"x" * 4096)


def say(transcript):
    return os.write(1, b"hello")


def babble(transcript):
    """Write to whatever it was not told of."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"\xff" * 64)
        except OSError:
            continue
    time.sleep(60)


def come_back_twice(transcript):
    os.fork()
    return 5.0


def leave_a_child(transcript):
    """The reply is how long its children sleep: in its session, in another, and with no parent."""
    seconds = transcript.replies[0]
    subprocess.Popen(["sleep", seconds])
    subprocess.Popen(["sleep", seconds], start_new_session=True)
    subprocess.run(["sh", "-c", f"setsid sleep {seconds} &"], check=True)
    return 1.0


def hang_with_children(transcript):
    leave_a_child(transcript)
    time.sleep(60)


def too_many(transcript, another):
    return 0.0


NOT_A_FUNCTION = 1.0


def num_moves(transcript):
    return len(transcript.moves)


def nap_briefly(transcript):
    time.sleep(0.1)
    return 1.0


def wait_in_seat_0(transcript):
    """For a file that the environment names."""
    while transcript.seat == 0 and not Path(os.environ["GATE"]).exists():
        time.sleep(0.01)
    return transcript.seat


def fail_if_even(transcript):
    if len(transcript.moves) % 2 == 0:
        raise ValueError("even")
    return 0.0
