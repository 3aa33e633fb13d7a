"""What is left of a start that fails: nothing but its reason."""

import multiprocessing
import time
from pathlib import Path

import pytest
from earl_trainer.rollout.process_tree import ProcessTree
from earl_trainer.rollout.vllm_start import one_line, start_errors, watching
from earl_trainer.types import RunFailedError


def start_child():
    child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    child.start()
    return child


def runs(child):
    return child.exitcode is None and Path(f"/proc/{child.pid}").exists()


def test_what_was_started_inside_ends_with_an_exception_and_what_was_there_before_does_not():
    before = start_child()
    try:
        started = []

        def start():
            with watching(ProcessTree()):
                started.append(start_child())
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            start()
        (inside,) = started
        inside.join(timeout=20.0)
        assert not runs(inside)
        assert runs(before)
    finally:
        before.kill()
        before.join()


def test_what_was_started_is_known_after_a_start_that_went_well():
    processes = ProcessTree()
    with watching(processes) as watch:
        child = start_child()
        assert watch()
    assert child.pid in processes.pids
    assert runs(child)
    processes.end(timeout_s=20.0)
    assert processes.pids == []


@pytest.mark.parametrize(("failure", "kind", "message"), [
    (ValueError("heads\n  and tp"), ValueError, "^vLLM at tp 2: heads and tp$"),
    (TimeoutError("late"), RunFailedError, "^vLLM did not start at tp 2: late$"),
    (RuntimeError(), RunFailedError, "^vLLM did not start at tp 2: RuntimeError$"),
])  # fmt: skip
def test_the_reason_is_one_line_with_the_degree(failure, kind, message):
    with pytest.raises(kind, match=message), start_errors(2):
        raise failure


def test_an_exception_without_words_is_named():
    assert one_line(KeyError("a\n b")) == "'a\\n b'"
    assert one_line(EOFError()) == "EOFError"
