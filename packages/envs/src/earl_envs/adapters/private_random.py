"""Chance for foreign code that draws from the generators of the whole process."""

import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import final

import numpy as np


@final
class PrivateRandom:
    """A state of Python's and numpy's global generators that belongs to one environment.

    While `installed`, foreign code draws from it; before and after, the process has its own. So one
    environment neither disturbs the process nor another environment, and a copy of it has the same
    future. Not for use by two threads at once: the generators are the process's.
    """

    def __init__(self, seed: int) -> None:
        self._python = random.Random(seed).getstate()
        self._numpy = np.random.RandomState(seed % 2**32).get_state()

    @contextmanager
    def installed(self) -> Generator[None, None, None]:
        """Lend the generators of the process to the code inside `with`."""
        python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
        random.setstate(self._python)
        np.random.set_state(self._numpy)  # noqa: NPY002
        try:
            yield
        finally:
            self._python, self._numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002
