"""The other workers begin and end with the run."""

import time

import pytest
import torch
from earl_trainer.types import RunFailedError
from earl_trainer.workers.processes import Meeting, threads_per_worker, working_together
from earl_trainer.workers.team import Team

TIMEOUT_S = 60.0


@pytest.fixture(autouse=True)
def threads_stay():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_a_team_of_one_starts_nobody():
    team, asked = Team(), []
    with working_together(team, lambda rank, meeting: asked.append(rank), timeout_s=TIMEOUT_S):
        assert team.everyone.all_gather("me") == ["me"]
    assert asked == []


def test_workers_share_the_cores():
    assert threads_per_worker(10_000) == 1
    assert threads_per_worker(1) >= 2 * threads_per_worker(2) - 1 >= 1


def test_a_worker_that_fails_before_it_is_there_is_named_at_once():
    team = Team(num_rollout_workers=2)
    start_s = time.monotonic()
    # Called with a rank and a meeting, which it cannot divide.
    with (
        pytest.raises(RunFailedError, match="worker 1 ended with exit status 1"),
        working_together(team, divmod, timeout_s=TIMEOUT_S),
    ):
        pytest.fail("nobody was there")
    assert time.monotonic() - start_s < TIMEOUT_S


def test_who_does_not_come_is_not_waited_for_for_ever(tmp_path):
    meeting = Meeting(path=str(tmp_path / "store"), size=3, timeout_s=0.2)
    with pytest.raises(RunFailedError, match=r"1 of 3 workers were there after 0\.2 s"):
        meeting.join(Team(num_rollout_workers=3))
