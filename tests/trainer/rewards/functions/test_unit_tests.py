"""Programs against tests."""

import time

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
