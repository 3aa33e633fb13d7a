"""Starting vLLM so that nothing of a start that fails is left, and its reason fits one line."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from earl_trainer.rollout import vllm_library
from earl_trainer.rollout.process_tree import ProcessTree
from earl_trainer.types import RunFailedError

END_TIMEOUT_S = 20.0
"""Longest time that killed processes may take to be gone."""


@contextmanager
def watching(processes: ProcessTree) -> Generator[Callable[[], bool]]:
    """Take in the processes that are started inside, at every call of what this gives.

    They end if it ends by an exception, Ctrl-C among them.
    """
    before = vllm_library.list_children()

    def watch() -> bool:
        processes.watch(vllm_library.list_children() - before)
        return True

    try:
        yield watch
    except BaseException:
        watch()
        processes.end(timeout_s=END_TIMEOUT_S)
        raise


@contextmanager
def start_errors(tp: int) -> Generator[None]:
    """Say of what goes wrong inside, in one line, that it was a start at this degree.

    Raises:
        ValueError: If vLLM refused its arguments.
        RunFailedError: If it did not start.
    """
    try:
        yield
    except ValueError as error:
        raise ValueError(f"vLLM at tp {tp}: {one_line(error)}") from error
    except (RuntimeError, OSError) as error:
        raise RunFailedError(f"vLLM did not start at tp {tp}: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Return what an exception says, or else its name."""
    return " ".join(str(error).split()) or type(error).__name__
