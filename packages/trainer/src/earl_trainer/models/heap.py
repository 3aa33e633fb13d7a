"""The heap of this process, which keeps what was freed."""

import ctypes
from typing import Final

_C_LIBRARY: Final = ctypes.CDLL(None)


def give_back_heap() -> None:
    """Give freed pages of the heap back to the system, with glibc; without it do nothing.

    Passes over ever other rows leave holes that no later tensor fits, so that a process grows from
    step to step. Source: man 3 malloc_trim.
    """
    if hasattr(_C_LIBRARY, "malloc_trim"):
        _C_LIBRARY.malloc_trim(0)
