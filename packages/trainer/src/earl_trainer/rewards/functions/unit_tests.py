"""Programs, run against the tests that they have to pass."""

import re
import secrets
import subprocess
import sys
from collections.abc import Sequence

from earl_trainer.rewards.functions.questions import answers
from earl_trainer.rewards.transcript import Transcript

TEST_S = 5.0
"""Longest time of one test by the clock; `reward.wall_s` has to hold all of them."""
_TEST_CPU_S = 1
_LIMITED = f"import resource\nresource.setrlimit(resource.RLIMIT_CPU, ({_TEST_CPU_S},) * 2)\n"
_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)


def unit_tests(transcript: Transcript) -> float:
    """Return the mean share of the tests that the program in a game's last reply passes.

    Each test is a piece of Python that raises where the program is wrong, such as
    `assert add(1, 2) == 3`, and runs behind the program in an interpreter of its own. What hangs,
    raises or ends early fails its test and no other.

    Raises:
        ValueError: If the game has no `solution(state)` that is a sequence of tests, at least one.
    """
    shares: list[float] = []
    for reply, tests in answers(transcript):
        if isinstance(tests, str) or not tests:
            raise ValueError(f"the solution must be a sequence of tests, got {tests!r}")
        shares.append(share_passed(program_of(reply), tests))
    return sum(shares) / len(shares)


def program_of(reply: str) -> str:
    """Return the last fenced block of a reply, or all of it where there is none."""
    blocks = _FENCED.findall(reply)
    return blocks[-1] if blocks else reply


def share_passed(program: str, tests: Sequence[str]) -> float:
    """Return the share of tests that a program passes, each run apart."""
    return sum(_passes(program, test) for test in tests) / len(tests)


def _passes(program: str, test: str) -> bool:
    # Said at the end only: a program that exits on the way has an exit status of 0 as well.
    word = secrets.token_hex(16)
    try:
        run = subprocess.run(
            [sys.executable, "-I", "-"],
            input=f"{_LIMITED}{program}\n{test}\nprint({word!r})\n".encode(errors="replace"),
            capture_output=True,
            timeout=TEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0 and run.stdout.rstrip().endswith(word.encode())
