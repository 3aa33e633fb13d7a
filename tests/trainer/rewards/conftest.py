"""Functions that reward, and transcripts for them."""

import time
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest
from earl_trainer.rewards.limits import RewardLimits
from earl_trainer.rewards.process import RewardProcess
from earl_trainer.rewards.service import RewardService
from earl_trainer.rewards.transcript import GameTranscript, Transcript

FUNCTIONS = Path(__file__).parent / "functions"
ODD = "odd_rewards"


@pytest.fixture(autouse=True)
def find_functions(monkeypatch):
    """Let reward processes find the functions, as they look where this process does."""
    monkeypatch.syspath_prepend(FUNCTIONS)


@pytest.fixture(scope="session")
def transcript():
    """Make a transcript of one game, in which the model wrote this."""

    def make(*replies):
        game = GameTranscript(
            seed=3, moves=(4, 0), first_reply=0, end_reason="finished", outcome=1.0
        )
        return Transcript(
            game_id="earl/TicTacToe-v0",
            seat=0,
            replies=tuple(str(reply) for reply in replies),
            reply_tokens=(2,) * len(replies),
            games=(game,),
            outcome=1.0,
            truncated=False,
        )

    return make


@pytest.fixture
def open_process():
    """Start reward processes that know these of the odd functions."""
    processes = []

    def open_(*names, stop=None, start_timeout_s=60.0, targets=None, **limits):
        process = RewardProcess(
            targets or [f"{ODD}:{name}" for name in names],
            RewardLimits(**limits),
            start_timeout_s=start_timeout_s,
            stop=stop or Event(),
        )
        processes.append(process)
        return process

    yield open_
    for process in processes:
        process.kill()


@pytest.fixture
def open_service():
    """Start services that know these of the odd functions."""
    services = []

    def open_(*names, num_processes=1, **limits):
        service = RewardService(
            [f"{ODD}:{name}" for name in names],
            num_processes=num_processes,
            limits=RewardLimits(**limits),
        )
        services.append(closing(service))
        return service

    yield open_
    for service in services:
        with service:
            pass


@pytest.fixture
def wait_until():
    """Wait until something holds, and fail if it does not within the time."""

    def wait(holds, timeout_s=20.0):
        deadline_s = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < deadline_s, "it does not come true"
            time.sleep(0.02)

    return wait


def sleepers(seconds):
    """Processes that sleep exactly so long, which names those of one test."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if command == f"sleep\0{seconds}\0".encode():
            found.append(int(folder.name))
    return found


@pytest.fixture(scope="session")
def find_sleepers():
    return sleepers
