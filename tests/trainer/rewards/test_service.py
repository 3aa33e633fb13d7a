"""Many jobs at once: in order by their tickets, whatever becomes of some of them."""

import os
import signal
import time
from pathlib import Path

import pytest
from earl_trainer.rewards.outcome import RewardFailure
from earl_trainer.rewards.process import RewardStartError
from earl_trainer.rewards.service import RewardService

TIMEOUT_S = 60.0


def test_every_ticket_has_the_value_of_its_own_job(open_service, transcript):
    service = open_service("echo", "length", num_processes=2)
    tickets = [service.submit("odd_rewards:echo", transcript(number)) for number in range(300)]
    others = [service.submit("odd_rewards:length", transcript("a" * n)) for n in range(20)]
    assert [ticket.result(TIMEOUT_S).value for ticket in tickets] == list(range(300))
    assert [ticket.result(TIMEOUT_S).value for ticket in others] == list(range(20))


def test_jobs_overlap_one_another_and_whatever_their_owner_does(
    open_service, transcript, wait_until
):
    service = open_service("sleep", num_processes=4)
    wait_until(lambda: len(service.pids()) == 4)
    start_s = time.monotonic()
    tickets = [service.submit("odd_rewards:sleep", transcript(0.5)) for _ in range(8)]
    time.sleep(1.0)  # The owner's own work.
    assert [ticket.result(TIMEOUT_S).value for ticket in tickets] == [1.0] * 8
    # Four seconds of rewards and one of work, one after the other.
    assert time.monotonic() - start_s < 3.0


def test_hung_jobs_give_their_place_back(open_service, transcript, wait_until):
    service = open_service("sleep", "length", num_processes=2, wall_s=0.3)
    hung = [service.submit("odd_rewards:sleep", transcript(60)) for _ in range(2)]
    ticket = service.submit("odd_rewards:length", transcript("abc"))
    assert ticket.result(TIMEOUT_S).value == 3.0
    outcomes = [each.result(TIMEOUT_S) for each in hung]
    assert {outcome.failure for outcome in outcomes} == {RewardFailure.TIMEOUT}
    assert service.submit("odd_rewards:length", transcript("ab")).result(TIMEOUT_S).value == 2.0


def test_a_job_whose_process_is_killed_is_done_by_the_next_once(open_service, transcript, tmp_path):
    service = open_service("kill_itself", "kill_itself_once", "length")
    once = service.submit("odd_rewards:kill_itself_once", transcript(tmp_path / "was_here"))
    always = service.submit("odd_rewards:kill_itself", transcript("a"))
    after = service.submit("odd_rewards:length", transcript("abc"))
    assert once.result(TIMEOUT_S).value == 7.0
    assert always.result(TIMEOUT_S).failure is RewardFailure.CRASH
    assert always.result(TIMEOUT_S).detail == "its process was killed from outside, twice"
    assert after.result(TIMEOUT_S).value == 3.0


def test_a_process_that_is_killed_between_two_jobs_is_replaced(
    open_service, transcript, wait_until
):
    service = open_service("own_pid")
    first = service.submit("odd_rewards:own_pid", transcript("a")).result(TIMEOUT_S).value
    assert service.pids() == [first]
    os.kill(int(first), signal.SIGKILL)
    second = service.submit("odd_rewards:own_pid", transcript("a")).result(TIMEOUT_S).value
    assert second != first


def test_it_closes_within_five_seconds_with_a_full_queue(open_service, transcript, wait_until):
    service = open_service("sleep", num_processes=2, wall_s=600.0)
    wait_until(lambda: len(service.pids()) == 2)
    pids = service.pids()
    tickets = [service.submit("odd_rewards:sleep", transcript(600)) for _ in range(500)]
    time.sleep(0.3)
    start_s = time.monotonic()
    service.close()
    assert time.monotonic() - start_s < 5.0
    assert {ticket.result(0.0).failure for ticket in tickets} == {RewardFailure.CRASH}
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    service.close()
    late = service.submit("odd_rewards:sleep", transcript(0)).result(0.0)
    assert late.detail == "the service was closed"


def test_it_closes_while_its_processes_start(open_service, transcript):
    service = open_service("sleep")
    ticket = service.submit("odd_rewards:sleep", transcript(0))
    service.close()
    assert ticket.result(0.0).value in (None, 1.0)


def test_where_no_process_starts_every_ticket_says_why(transcript):
    service = RewardService(["ends_at_import:any"], num_processes=2)
    try:
        tickets = [service.submit("ends_at_import:any", transcript("a")) for _ in range(5)]
        for ticket in tickets:
            with pytest.raises(RewardStartError, match="ends_at_import:any failed"):
                ticket.result(TIMEOUT_S)
        with pytest.raises(RewardStartError, match="ends_at_import:any failed"):
            service.submit("ends_at_import:any", transcript("a")).result(TIMEOUT_S)
    finally:
        service.close()


def test_a_function_that_was_not_named_is_refused(open_service, transcript):
    with pytest.raises(ValueError, match="'odd_rewards:fail' is none of the service's"):
        open_service("length").submit("odd_rewards:fail", transcript("a"))
