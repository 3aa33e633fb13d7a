"""Programs against tests."""

import time
from dataclasses import replace

import pytest
from earl_trainer.rewards.functions.unit_tests import TEST_S, program_of, share_passed, unit_tests

RIGHT = "def double(x):\n    return x + x\n"


def test_tests_passed_give_partial_credit(told):
    replies = f"Here:\n```python\n{RIGHT}```\n", "```\ndef double(x): return 2 ** x\n```"
    assert unit_tests(told("test/Doubling-v0", replies[0])) == 1.0
    assert unit_tests(told("test/Doubling-v0", *replies)) == pytest.approx((1 + 1 / 3) / 2)
    with pytest.raises(ValueError, match="must be a sequence of tests"):
        unit_tests(told("test/Sum-v0", RIGHT))


def test_the_last_block_is_the_program():
    assert program_of("```py\na\n```\nor\n```\nb\n```") == "b\n"
    assert program_of("a = 1") == "a = 1"


def test_a_program_that_ends_early_passes_nothing():
    tests = ["assert False"]
    for cheat in ("import sys; sys.exit(0)", "import os; os._exit(0)", "def ("):
        assert share_passed(cheat, tests) == 0.0
    assert share_passed("x = 1", ["assert x == 1"]) == 1.0


def test_a_test_that_hangs_fails_alone():
    program = "def f(x):\n    while x: pass\n    return 1"
    start_s = time.monotonic()
    assert share_passed(program, ["assert f(0) == 1", "assert f(1) == 1"]) == 0.5
    assert time.monotonic() - start_s < TEST_S + 10.0


def test_a_program_may_begin_with_a_future_import():
    program = f'"""Doubles."""\nfrom __future__ import annotations\n{RIGHT}'
    assert share_passed(program, ["assert double(2) == 4", "assert double(2) == 5"]) == 0.5


def test_a_program_that_sleeps_in_every_test_gets_nothing_within_the_limit(told):
    program = "import time\ndef double(x):\n    time.sleep(60)"
    transcript = replace(told("test/Doubling-v0", program), limit_s=2.0)
    start_s = time.monotonic()
    assert unit_tests(transcript) == 0.0
    assert time.monotonic() - start_s < 2.0


def test_tests_that_passed_count_though_the_others_take_all_the_time():
    program = "import time\ndef f(x):\n    time.sleep(x)"
    tests = ["f(0)", "f(60)", "f(0)"]
    assert share_passed(program, tests, end_s=time.monotonic() + 5.0) == pytest.approx(1 / 3)
