"""Ctrl-C arrives after the block and not within."""

import os
import signal
import threading

import pytest
from earl_trainer.interrupts import interrupts_deferred


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # the handler runs between two bytecodes
        pass


def test_ctrl_c_in_the_block_comes_after_it():
    before, done = signal.getsignal(signal.SIGINT), []

    def work():
        with interrupts_deferred(lambda: done.append("told")):
            press_ctrl_c()
            done.append("first half")
            press_ctrl_c()
            done.append("second half")

    with pytest.raises(KeyboardInterrupt):
        work()

    assert done == ["told", "first half", "told", "second half"]
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_outside_is_as_ever():
    told = []
    with interrupts_deferred(lambda: told.append("told")):
        pass
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()

    assert told == []


def test_a_quiet_block_raises_nothing_and_puts_the_handler_back():
    before = signal.getsignal(signal.SIGINT)
    with interrupts_deferred(lambda: None):
        assert signal.getsignal(signal.SIGINT) is not before

    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_in_the_block_is_the_one_that_is_raised_and_the_handler_is_put_back():
    before = signal.getsignal(signal.SIGINT)

    def work():
        with interrupts_deferred(lambda: None):
            press_ctrl_c()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()

    assert signal.getsignal(signal.SIGINT) is before


def test_outside_the_main_thread_it_does_nothing():
    seen = []

    def work():
        with interrupts_deferred(lambda: None):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
