"""Programs, run against the tests that they have to pass."""

import math
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence

from earl_trainer.rewards.functions.questions import answers
from earl_trainer.rewards.transcript import Transcript

TEST_S = 5.0
"""Longest time of one test by the clock."""
_TEST_CPU_S = 1
# Of the time that the function has for an episode: the rest is for what it does besides.
_SHARE_OF_LIMIT = 0.8
# The limit is set in front of the program and not in it, as only its first line may be one such as
# `from __future__ import annotations`.
_RUNNER = (
    "__import__('resource').setrlimit(__import__('resource').RLIMIT_CPU, "
    f"({_TEST_CPU_S}, {_TEST_CPU_S})); "
    "exec(compile(__import__('sys').stdin.buffer.read(), '<program>', 'exec'))"
)
_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)


def unit_tests(transcript: Transcript) -> float:
    """Return the mean share of the tests that the program in a game's last reply passes.

    Each test is a piece of Python that raises where the program is wrong, such as
    `assert add(1, 2) == 3`, and runs behind the program in an interpreter of its own. What hangs,
    raises or ends early fails its test and no other. All tests of an episode share four fifths of
    its time limit; those that it does not suffice for count as failed.

    Raises:
        ValueError: If the game has no `solution(state)` that is a sequence of tests, at least one.
    """
    shares: list[float] = []
    end_s = time.monotonic() + _SHARE_OF_LIMIT * transcript.limit_s
    for reply, tests in answers(transcript):
        if isinstance(tests, str) or not tests:
            raise ValueError(f"the solution must be a sequence of tests, got {tests!r}")
        shares.append(share_passed(program_of(reply), tests, end_s=end_s))
    return sum(shares) / len(shares)


def program_of(reply: str) -> str:
    """Return the last fenced block of a reply, or all of it where there is none."""
    blocks = _FENCED.findall(reply)
    return blocks[-1] if blocks else reply


def share_passed(program: str, tests: Sequence[str], *, end_s: float = math.inf) -> float:
    """Return the share of tests that a program passes, each run apart.

    Args:
        program: Python.
        tests: Likewise, at least one.
        end_s: Of the monotonic clock; tests that are not done then have failed.
    """
    return sum(_passes(program, test, end_s) for test in tests) / len(tests)


def _passes(program: str, test: str, end_s: float) -> bool:
    left_s = min(TEST_S, end_s - time.monotonic())
    if left_s <= 0.0:
        return False
    # Said at the end only: a program that exits on the way has an exit status of 0 as well.
    word = secrets.token_hex(16)
    try:
        run = subprocess.run(
            [sys.executable, "-I", "-c", _RUNNER],
            input=f"{program}\n{test}\nprint({word!r})\n".encode(errors="replace"),
            capture_output=True,
            timeout=left_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0 and run.stdout.rstrip().endswith(word.encode())
