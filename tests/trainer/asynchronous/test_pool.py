"""Workers as processes of a Ray cluster."""

import os
import signal
import time
from dataclasses import replace

import psutil
import pytest
from earl_trainer.asynchronous.pool import RolloutPool
from earl_trainer.asynchronous.weights import pack_weights
from earl_trainer.asynchronous.worker import RolloutWorker
from earl_trainer.asynchronous.workers import LostRolloutWorkerError
from earl_trainer.rollout.starts import grouped_starts

pytestmark = pytest.mark.slow


@pytest.fixture
def pool(make_settings):
    settings = make_settings()
    made = RolloutPool(
        2, lambda worker: RolloutWorker(settings), num_threads=1, store_bytes=128 * 1024**2
    )
    yield made
    made.close()


def publish(pool, version, model):
    weights = pool.share(pack_weights(model))
    for worker in range(2):
        pool.publish(worker, version, weights)
    assert pool.wait_for_weights(60.0)


def take(pool, workers, num_groups):
    told, deadline_s = {worker: [] for worker in workers}, time.monotonic() + 60.0
    while sum(map(len, told.values())) < num_groups:
        for worker, news in pool.take(workers, 0.2).items():
            told[worker] += [group.number for group in news.groups]
        assert time.monotonic() < deadline_s
    return told


def group(number):
    starts = grouped_starts(0, step=number, num_episodes=4, group_size=4, num_seats=2)
    return number, [replace(start, episode=4 * number + start.episode) for start in starts]


def test_workers_play_apart_one_is_killed_and_another_takes_its_place(pool, tiny_model):
    publish(pool, 1, tiny_model)
    pool.grant(0, [group(0), group(2)])
    pool.grant(1, [group(1)])
    assert {worker: sorted(done) for worker, done in take(pool, [0, 1], 3).items()} == {
        0: [0, 2],
        1: [1],
    }

    os.kill(pool.pids()[1], signal.SIGKILL)
    pool.grant(0, [group(3)])
    done, lost, deadline_s = [], None, time.monotonic() + 60.0
    while lost is None or not done:
        for worker, news in pool.take([0, 1] if lost is None else [0], 0.2).items():
            if isinstance(news, LostRolloutWorkerError):
                lost = news
            else:
                done += [each.number for each in news.groups]
            assert worker == 1 or not isinstance(news, LostRolloutWorkerError)
        assert time.monotonic() < deadline_s
    # What the other one told at the same time is not lost.
    assert done == [3]
    assert "rollout worker 1 is gone" in str(lost)

    pool.restart(1)
    publish(pool, 2, tiny_model)
    pool.grant(1, [group(4)])
    assert take(pool, [1], 1) == {1: [4]}


def test_closing_ends_the_processes_whatever_they_do(pool, tiny_model):
    publish(pool, 1, tiny_model)
    pool.grant(0, [group(number) for number in range(200)])
    processes = [psutil.Process(pid) for pid in pool.pids()]
    start_s = time.monotonic()
    pool.close()
    pool.close()
    psutil.wait_procs(processes, timeout=10.0)
    assert not any(process.is_running() for process in processes)
    assert time.monotonic() - start_s < 15.0
