"""Job: what a command line asks for, once it has been read."""

import sys
from collections.abc import Callable, Sequence
from functools import partial

Job = Callable[[], int]
"""Does what was asked for and returns the exit status."""
Reader = Callable[[Sequence[str]], Job]
"""Turns the words behind a verb into its job; a ValueError says in one line what does not fit."""


def wants_help(arguments: Sequence[str]) -> bool:
    """Tell whether `-h` or `--help` is among the words."""
    return any(argument in ("-h", "--help") for argument in arguments)


def printing(text: str) -> Job:
    """Return the job that prints a text."""
    return partial(_print, text)


def _print(text: str) -> int:
    sys.stdout.write(text)
    return 0
