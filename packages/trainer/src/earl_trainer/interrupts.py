"""Ctrl-C that arrives only where the run's state is consistent."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType


@contextmanager
def interrupts_deferred(on_deferred: Callable[[], None]) -> Generator[None]:
    """Hold back KeyboardInterrupt until the block has ended.

    For the part of a step that changes weights: interrupted there, the run would resume from half a
    step. Outside the main thread, which signals never reach, it does nothing.

    Args:
        on_deferred: Called at once when Ctrl-C is held back, to tell whoever pressed it.

    Raises:
        KeyboardInterrupt: After the block, if Ctrl-C came during it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held = False

    def hold(signum: int, frame: FrameType | None) -> None:
        nonlocal held
        held = True
        # A line that is just being written to the same stream cannot be broken into.
        with suppress(RuntimeError):
            on_deferred()

    previous = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if held:
        raise KeyboardInterrupt
