"""Who is awake when, and what is said about memory, with configurations that only remember."""

from pathlib import Path

import pytest
from earl_trainer.rollout.vllm_pool import ConfigurationPool
from earl_trainer.types import RunFailedError

FOLDER = Path("weights")
OTHER_FOLDER = Path("newer")


class World:
    """Configurations that write down what happens, and may fail or leak."""

    def __init__(self):
        self.log = []
        self.failing = set()
        self.leaked_bytes = 0

    def start(self, tp, folder):
        if tp in self.failing:
            raise RunFailedError(f"no start at {tp}")
        return FakeConfiguration(self, tp, folder)


class FakeConfiguration:
    def __init__(self, world, tp, folder):
        self.world, self._tp, self.awake = world, tp, True
        world.log.append(("start", tp, folder))

    @property
    def tp(self):
        return self._tp

    @property
    def sleeping_bytes(self):
        return 140 * self._tp

    def held_bytes(self):
        return 150 * self._tp if self.awake else self.world.leaked_bytes

    def sleep(self):
        self.awake = False
        self.world.log.append(("sleep", self._tp))

    def wake(self, folder):
        if self._tp in self.world.failing:
            raise RunFailedError(f"no waking at {self._tp}")
        self.awake = True
        self.world.log.append(("wake", self._tp, folder))

    def close(self):
        self.awake = False
        self.world.log.append(("close", self._tp))


@pytest.fixture
def world():
    return World()


def make_pool(world, *, keeps):
    pool = ConfigurationPool(world.start, keeps=keeps)
    pool.begin(1, FOLDER)
    return pool


def test_nothing_is_in_use_before_the_first_start(world):
    pool = ConfigurationPool(world.start, keeps=True)
    assert not pool.is_started
    with pytest.raises(RuntimeError, match="load_weights"):
        _ = pool.current


def test_where_configurations_cannot_sleep_the_old_one_ends_before_the_new_one_starts(world):
    pool = make_pool(world, keeps=False)
    pool.switch(2, FOLDER)
    pool.switch(1, OTHER_FOLDER)
    assert world.log == [
        ("start", 1, FOLDER), ("close", 1), ("start", 2, FOLDER),
        ("close", 2), ("start", 1, OTHER_FOLDER),
    ]  # fmt: skip


def test_where_they_can_each_degree_is_started_once_and_wakes_with_the_latest_weights(world):
    pool = make_pool(world, keeps=True)
    pool.switch(2, FOLDER)
    pool.switch(1, OTHER_FOLDER)
    assert world.log == [
        ("start", 1, FOLDER), ("sleep", 1), ("start", 2, FOLDER),
        ("sleep", 2), ("wake", 1, OTHER_FOLDER),
    ]  # fmt: skip
    assert pool.current.tp == 1
    pool.close()
    assert sorted(world.log[-2:]) == [("close", 1), ("close", 2)]


def test_the_memory_of_a_switch_is_measured_before_between_and_after(world):
    memory = make_pool(world, keeps=False).switch(2, FOLDER)
    assert (memory.before_bytes, memory.released_bytes, memory.after_bytes) == (150, 150, 300)
    assert memory.problem == ""


@pytest.mark.parametrize(("keeps", "leaked_bytes", "is_fine"), [
    (False, 1, False),  # a process that lives on
    (True, 10, True),  # who sleeps keeps its process, and neither weights nor cache
    (True, 11, False),
])  # fmt: skip
def test_memory_that_does_not_come_back_is_said(world, keeps, leaked_bytes, is_fine):
    world.leaked_bytes = leaked_bytes
    problem = make_pool(world, keeps=keeps).switch(2, FOLDER).problem
    assert (problem == "") is is_fine
    if not is_fine:
        assert f"gave back {150 - leaked_bytes} of 150 bytes" in problem


@pytest.mark.parametrize("keeps", [True, False])
def test_where_the_new_one_does_not_start_the_old_one_is_back(world, keeps, caplog):
    pool = make_pool(world, keeps=keeps)
    world.failing = {2}
    with pytest.raises(RunFailedError, match="no start at 2"):
        pool.switch(2, FOLDER)
    assert (pool.current.tp, pool.current.awake) == (1, True)
    assert "went back to tp 1" in caplog.text
    world.failing = set()
    pool.switch(2, FOLDER)
    assert pool.current.tp == 2


def test_one_that_does_not_wake_is_ended_and_started_anew_the_next_time(world):
    pool = make_pool(world, keeps=True)
    pool.switch(2, FOLDER)
    world.failing = {1}
    with pytest.raises(RunFailedError, match="no waking at 1"):
        pool.switch(1, FOLDER)
    assert ("close", 1) in world.log
    world.failing = set()
    pool.switch(1, OTHER_FOLDER)
    assert world.log[-1] == ("start", 1, OTHER_FOLDER)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_new_start_ends_what_is_left_of_the_old_one(world, keeps):
    pool = make_pool(world, keeps=keeps)
    pool.restart(1, OTHER_FOLDER)
    assert world.log == [("start", 1, FOLDER), ("close", 1), ("start", 1, OTHER_FOLDER)]
    world.failing = {1}
    with pytest.raises(RunFailedError, match="no start at 1"):
        pool.restart(1, FOLDER)
    assert not pool.is_started
    world.failing = set()
    pool.restart(1, FOLDER)
    assert (pool.current.tp, pool.current.awake) == (1, True)


def test_a_new_start_does_not_wake_one_that_sleeps(world):
    pool = make_pool(world, keeps=True)
    pool.switch(2, FOLDER)
    pool.restart(1, OTHER_FOLDER)
    assert world.log[-3:] == [("close", 2), ("close", 1), ("start", 1, OTHER_FOLDER)]


def test_where_the_old_one_does_not_come_back_either_none_is_in_use(world):
    pool = make_pool(world, keeps=False)
    world.failing = {1, 2}
    with pytest.raises(RunFailedError, match="no start at 1"):
        pool.switch(2, FOLDER)
    assert not pool.is_started
    pool.close()
