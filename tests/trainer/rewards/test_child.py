"""The inside of a reward process, spoken to as its owner does."""

import json
import os
import pickle
import socket
import subprocess
import sys
import time

import pytest
from earl_trainer.rewards.child import Job, Orders
from earl_trainer.rewards.frames import receive_frame, send_frame
from earl_trainer.rewards.limits import RewardLimits
from earl_trainer.rewards.strays import MARK

CODE = "import sys; sys.path.insert(0, sys.argv[2]); from earl_trainer.rewards.child import main; "
CODE += "main(int(sys.argv[1]), 'test-of-the-child')"


@pytest.fixture
def child(find_functions):
    """Start one; return the process and the connection to it."""
    channel, other = socket.socketpair()
    with other:
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, str(other.fileno()), sys.path[0]],
            pass_fds=(other.fileno(),),
            start_new_session=True,
            env={**os.environ, MARK: "test-of-the-child"},
        )
    with channel:
        yield process, channel
    process.kill()
    process.wait()


def tell(channel, message):
    send_frame(channel, pickle.dumps(message), timeout_s=20.0)


def hear(channel):
    return json.loads(receive_frame(channel, timeout_s=30.0, max_bytes=100_000))


def test_it_answers_by_number_and_says_what_is_left_running(child, transcript):
    _, channel = child
    targets = ["odd_rewards:length", "odd_rewards:leave_a_child", "odd_rewards:fail"]
    tell(channel, Orders(targets=targets, limits=RewardLimits()))
    assert hear(channel) == {"problem": ""}
    for number, target in enumerate(targets, start=7):
        tell(channel, Job(number=number, target=target, transcript=transcript("61.75")))
    assert hear(channel) == {"value": 5.0, "number": 7, "children": False}
    assert hear(channel) == {"value": 1.0, "number": 8, "children": True}
    last = hear(channel)
    assert last["failure"] == "error"
    assert last["number"] == 9


def test_it_says_what_it_cannot_import_and_ends(child):
    process, channel = child
    tell(channel, Orders(targets=["odd_rewards:nothing"], limits=RewardLimits()))
    assert hear(channel)["problem"] == "odd_rewards:nothing: odd_rewards has no function 'nothing'"
    process.wait(10)


def test_it_ends_with_its_owner_whatever_it_computes(child, transcript, find_sleepers):
    process, channel = child
    tell(channel, Orders(targets=["odd_rewards:hang_with_children"], limits=RewardLimits()))
    hear(channel)
    job = Job(number=1, target="odd_rewards:hang_with_children", transcript=transcript("62.125"))
    tell(channel, job)
    deadline_s = time.monotonic() + 30.0
    while len(find_sleepers("62.125")) < 3:
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    channel.close()
    assert process.wait(10) == -9
    assert not find_sleepers("62.125")
