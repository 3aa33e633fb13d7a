"""Calling ranks in time, whatever becomes of them."""

import os
import sys
import time

import pytest
import ray
from earl_trainer.parallel import ray_ranks
from earl_trainer.parallel.ray_ranks import LostRankError, RayRanks, share_gpus
from ray import cloudpickle

pytestmark = pytest.mark.slow


class FakeRank:
    """Answers, refuses, fails, sleeps or ends."""

    def __init__(self, rank):
        self._rank = rank
        self._met = None
        self._interrupted = False

    def connect(self, address):
        self._met = address

    def where(self):
        return self._rank, self._met

    def add(self, a, b):
        return a + b + self._rank

    def refuse(self):
        raise ValueError(f"rank {self._rank} refuses")

    def fail(self):
        raise RuntimeError("first line\nlast line")

    def sleep(self, seconds):
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s and not self._interrupted:
            time.sleep(0.01)
        return self._interrupted

    def end(self):
        os._exit(1)

    def interrupt(self):
        self._interrupted = True


@pytest.fixture(scope="module", autouse=True)
def _by_value():
    """Actors cannot import a module of tests."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def ranks():
    made = RayRanks(2, FakeRank)
    yield made
    made.close()


def test_ranks_meet_answer_in_order_and_end(ranks):
    answers = ranks.call([1, 0], "where", timeout_s=30.0)
    assert [rank for rank, _ in answers] == [1, 0]
    assert answers[0][1] == answers[1][1]
    assert answers[0][1].startswith("tcp://")
    assert ranks.call_each({0: (1, 2), 1: (3, 4)}, "add", timeout_s=30.0) == [3, 8]
    pids = ranks.pids()
    assert len(set(pids)) == 2
    assert os.getpid() not in pids
    with pytest.raises(ValueError, match=r"^rank 1 refuses$"):
        ranks.call([1], "refuse", timeout_s=30.0)
    with pytest.raises(LostRankError, match=r"a rank failed: .*last line"):
        ranks.call([1], "fail", timeout_s=30.0)
    started_s = time.monotonic()
    with pytest.raises(LostRankError, match=r"1 of 2 ranks have not answered within 0.5 s"):
        ranks.call_each({0: (0.0,), 1: (5.0,)}, "sleep", timeout_s=0.5)
    assert time.monotonic() - started_s < 4.0
    ranks.interrupt()
    assert ranks.call([1], "sleep", 60.0, timeout_s=30.0) == [True]
    ranks.close()
    deadline_s = time.monotonic() + 30.0
    while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert not ray.is_initialized(), "the cluster was its own"


def test_a_rank_that_ends_is_noticed_while_others_are_waited_for(ranks):
    started_s = time.monotonic()
    references = [
        ranks._actors[0].call.remote("sleep", 30.0),
        ranks._actors[1].call.remote("end"),
    ]
    with pytest.raises(LostRankError, match="a rank is gone"):
        ranks._gather(references, timeout_s=60.0)
    assert time.monotonic() - started_s < 20.0


def test_no_cluster_at_an_address_is_said_in_one_line():
    with pytest.raises(LostRankError, match=r"no Ray cluster answers at 127.0.0.1:1") as refused:
        RayRanks(2, FakeRank, address="127.0.0.1:1")
    assert "\n" not in str(refused.value)


def test_a_cluster_that_does_not_come_up_is_said_in_one_line(monkeypatch):
    def fail(**options):
        raise Exception("Timed out.\nThe current node timed out during startup.")  # noqa: TRY002

    monkeypatch.setattr(ray, "init", fail)
    with pytest.raises(LostRankError, match=r"^Ray does not start: The current node timed out"):
        RayRanks(2, FakeRank)


def test_a_cluster_that_is_too_small_is_refused_before_anything_waits_for_it(monkeypatch):
    monkeypatch.setattr(ray_ranks, "join_cluster", lambda *args, **kwargs: False)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 1.0, "memory": 9.0})
    with pytest.raises(
        LostRankError,
        match=r"^2 ranks take a CPU each, and the Ray cluster has 1 CPUs and 0 GPUs in all$",
    ):
        RayRanks(2, FakeRank)


def test_ranks_have_a_gpu_each_or_none_has():
    assert share_gpus({"CPU": 4.0, "GPU": 2.0}, 2) == 1
    assert share_gpus({"CPU": 4.0, "GPU": 1.0}, 2) == 0
    assert share_gpus({"CPU": 2.0}, 2) == 0
