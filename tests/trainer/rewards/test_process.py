"""One process: whatever a function does, its owner gets an outcome and nothing is left running."""

import os
import signal
import time
from pathlib import Path
from threading import Event, Timer

import pytest
from earl_trainer.rewards.outcome import RewardFailure
from earl_trainer.rewards.process import RewardStartError


def exists(pid):
    return Path(f"/proc/{pid}").exists()


def test_jobs_are_computed_one_after_the_other_by_a_warm_process(open_process, transcript):
    process = open_process("count_calls", "length")
    outcomes = [process.run("odd_rewards:count_calls", transcript("a")) for _ in range(20)]
    assert [outcome.value for outcome in outcomes] == list(range(1, 21))
    assert process.run("odd_rewards:length", transcript("ab", "c")).value == 3.0
    assert process.is_usable


@pytest.mark.parametrize(
    ("name", "failure", "detail"),
    [
        ("sleep", RewardFailure.TIMEOUT, "it took more than 0.6 s"),
        ("exit_at_once", RewardFailure.CRASH, "ended by exit status 3, after it printed 'last wo"),
        ("fault", RewardFailure.CRASH, "ended by signal 11"),
        ("babble", RewardFailure.CRASH, "its answer cannot be read"),
        ("hog_memory", RewardFailure.MEMORY, "it ran out of memory"),
    ],
)
def test_what_goes_wrong_ends_the_process_and_says_why(
    open_process, transcript, name, failure, detail
):
    process = open_process(
        name, wall_s=0.6 if name == "sleep" else 20.0, memory_bytes=512 * 1024**2
    )
    outcome = process.run(f"odd_rewards:{name}", transcript(60))
    assert outcome.value is None
    assert outcome.failure is failure
    assert detail in outcome.detail
    assert outcome.took_s < 5.0
    assert not process.is_usable
    assert not exists(process.pid)


def test_a_busy_function_is_ended_by_the_processor_time_it_took_before_the_clock(
    open_process, transcript
):
    process = open_process("spin", "length", cpu_s=1, wall_s=60.0)
    for _ in range(3):  # What earlier jobs took is not counted.
        assert process.run("odd_rewards:length", transcript("a")).value == 1.0
    outcome = process.run("odd_rewards:spin", transcript("a"))
    assert outcome.failure is RewardFailure.TIMEOUT
    assert outcome.detail == "it took more than 1 s of the processor"


def test_an_error_is_told_and_harms_no_later_job(open_process, transcript):
    said = {
        "fail": "ValueError: no such move (/",
        "exit_python": "SystemExit: enough",
        "return_nan": "a reward must be a finite number, got nan",
        "return_none": "a reward must be a finite number, got None",
        "return_text": "a reward must be a finite number, got '1.0'",
        "flood": "OSError: [Errno 27] File too large",
    }
    process = open_process(*said, "say", "return_true", output_bytes=1024**2)
    for name, detail in said.items():
        outcome = process.run(f"odd_rewards:{name}", transcript("a"))
        assert outcome.value is None
        assert outcome.failure is RewardFailure.ERROR
        assert outcome.detail.startswith(detail)
        assert "\n" not in outcome.detail
        assert process.run("odd_rewards:say", transcript("a")).value == 5.0
    assert process.run("odd_rewards:return_true", transcript("a")).value == 1.0
    assert process.is_usable


def test_a_function_may_return_a_number_for_each_reply(open_process, transcript):
    said = transcript("ab", "", "c")
    names = "lengths", "lengths_as_array", "lengths_as_tuple"
    process = open_process(*names)
    for name in names:
        outcome = process.run(f"odd_rewards:{name}", said)
        assert (outcome.value, outcome.parts) == (3.0, (2.0, 0.0, 1.0)), outcome.detail


def test_numbers_that_are_not_one_for_each_reply_are_an_error(open_process, transcript):
    rule = "rewards of replies must be finite numbers with a finite sum, got"
    said = {
        "one_too_many": "a function that rewards replies returns a number for each, 2, got 3",
        "return_matrix": "a reward must be a finite number, got array([[0.]])",
        "return_nan_for_a_reply": f"{rule} [nan, nan]",
        "return_text_for_a_reply": f"{rule} ['1.0', '1.0']",
        "return_huge": f"{rule} [1e+308, 1e+308]",
        "return_an_endless_list": "RuntimeError: no end",
    }
    process = open_process(*said, "lengths")
    for name, detail in said.items():
        outcome = process.run(f"odd_rewards:{name}", transcript("a", "b"))
        assert (outcome.value, outcome.parts) == (None, ())
        assert outcome.failure is RewardFailure.ERROR
        assert outcome.detail.startswith(detail)
    assert process.run("odd_rewards:lengths", transcript("a", "b")).value == 2.0


@pytest.mark.parametrize("parts", ['"a"', "[1.0, 2.0]", "[NaN]"])
def test_a_forged_answer_is_no_reward(open_process, transcript, parts):
    process = open_process("answer_for_itself")
    forged = f'{{"number": 1, "parts": {parts}}}'
    outcome = process.run("odd_rewards:answer_for_itself", transcript(forged))
    assert outcome.failure is RewardFailure.CRASH
    assert outcome.detail.startswith("its answer cannot be read")


def test_what_a_function_leaves_running_ends_with_its_job(open_process, transcript, find_sleepers):
    process = open_process("leave_a_child")
    assert process.run("odd_rewards:leave_a_child", transcript("61.25")).value == 1.0
    assert not find_sleepers("61.25")
    assert not process.is_usable


def test_a_timeout_ends_children_wherever_they_have_gone(open_process, transcript, find_sleepers):
    process = open_process("hang_with_children", wall_s=1.0)
    outcome = process.run("odd_rewards:hang_with_children", transcript("61.5"))
    assert outcome.failure is RewardFailure.TIMEOUT
    assert not find_sleepers("61.5")


def test_a_fork_that_comes_back_answers_nothing(open_process, transcript):
    process = open_process("come_back_twice", "length")
    assert process.run("odd_rewards:come_back_twice", transcript("a")).value == 5.0
    if process.is_usable:  # The fork had ended before its parent looked.
        assert process.run("odd_rewards:length", transcript("abc")).value == 3.0


def test_being_killed_from_outside_says_nothing_of_the_job(open_process, transcript):
    process = open_process("sleep")
    timer = Timer(0.3, os.kill, (process.pid, signal.SIGKILL))
    timer.start()
    assert process.run("odd_rewards:sleep", transcript(30)) is None
    timer.join()
    assert not process.is_usable

    idle = open_process("sleep")
    os.kill(idle.pid, signal.SIGTERM)
    time.sleep(0.2)
    assert idle.run("odd_rewards:sleep", transcript(0)) is None


def test_to_stop_ends_a_job_at_once(open_process, transcript):
    stop = Event()
    process = open_process("sleep", stop=stop, wall_s=60.0)
    timer = Timer(0.3, stop.set)
    timer.start()
    outcome = process.run("odd_rewards:sleep", transcript(60))
    timer.join()
    assert outcome.failure is RewardFailure.CRASH
    assert outcome.took_s < 3.0
    process.kill()
    process.kill()
    assert not exists(process.pid)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("odd_rewards:nothing", "odd_rewards has no function 'nothing'"),
        ("odd_rewards:NOT_A_FUNCTION", "odd_rewards has no function 'NOT_A_FUNCTION'"),
        ("odd_rewards:too_many", "must take one transcript: missing a required argument: 'anoth"),
        ("no_such_module:any", "there is no module 'no_such_module'"),
        ("fails_to_import:any", "fails_to_import:any: RuntimeError: half written"),
        ("ends_at_import:any", "ends_at_import:any failed: its process ended by exit status 4"),
        ("slow_to_import:any", "slow_to_import:any took more than 2 s"),
    ],
)
def test_functions_that_cannot_be_called_are_refused_at_the_start(open_process, target, message):
    with pytest.raises(RewardStartError) as caught:
        open_process(targets=["odd_rewards:length", target], start_timeout_s=2.0)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_little_memory_for_the_imports_is_said(open_process):
    with pytest.raises(RewardStartError, match="large_to_import:any: MemoryError"):
        open_process(targets=["large_to_import:any"], memory_bytes=512 * 1024**2)
