"""Workers as processes of a Ray cluster."""

import os
import signal
import threading
import time
from dataclasses import replace

import psutil
import pytest
from earl_trainer.asynchronous.broadcast import BroadcastPublication, BroadcastRules
from earl_trainer.asynchronous.placement import AsyncPlacement
from earl_trainer.asynchronous.pool import RolloutPool
from earl_trainer.asynchronous.ray_placement import own_address
from earl_trainer.asynchronous.weights import pack_weights
from earl_trainer.asynchronous.worker import RolloutWorker
from earl_trainer.asynchronous.workers import LostRolloutWorkerError
from earl_trainer.models.tiny import build_model
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.rollout.starts import grouped_starts

pytestmark = pytest.mark.slow


@pytest.fixture
def pool(make_settings):
    settings = make_settings()
    made = RolloutPool(
        AsyncPlacement(learner_cores=1, worker_cores=(1, 1)),
        lambda worker: RolloutWorker(settings),
        store_bytes=128 * 1024**2,
    )
    yield made
    made.close()


def publish(pool, version, model):
    weights = pool.share(pack_weights(model))
    for worker in range(2):
        pool.publish(worker, version, weights)
    assert not pool.wait_for_weights(60.0)


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


@pytest.fixture
def wide_model(tiny_tokenizer):
    """More bytes than the buffers of a connection take in."""
    return build_model(
        tiny_tokenizer, hidden_size=512, num_layers=3, num_heads=8, max_context_tokens=256, seed=0
    )


@pytest.fixture
def wide_pool(make_settings, wide_model):
    settings = replace(make_settings(), blueprint=Blueprint.of(wide_model))
    made = RolloutPool(
        AsyncPlacement(learner_cores=1, worker_cores=(1, 1)),
        lambda worker: RolloutWorker(settings),
        store_bytes=128 * 1024**2,
    )
    yield made
    made.close()


def versions_of(pool, worker, number):
    """Let a worker play a group; return the versions that emitted its tokens."""
    pool.grant(worker, [group(number)])
    deadline_s = time.monotonic() + 60.0
    while True:
        news = pool.take([worker], 0.2).get(worker)
        if news is not None and news.groups:
            episodes = news.groups[0].episodes
            return {v for each in episodes for turn in each.turns for v in turn.versions}
        assert time.monotonic() < deadline_s


def test_a_worker_that_dies_or_hangs_in_a_broadcast_is_named_and_the_others_go_on(
    wide_pool, wide_model
):
    pool, model = wide_pool, wide_model
    rules = BroadcastRules(host=own_address(), bucket_bytes=4 << 20, timeout_s=3.0, check=True)
    publication = BroadcastPublication(pool, pool.receivers, rules)

    def publish_to(workers, version):
        publication.publish(model, version, workers)
        assert not pool.wait_for_weights(60.0)

    publish_to([0, 1], 1)
    assert versions_of(pool, 1, 0) == {1}

    # It stops reading, so that the broadcast is under way when it dies.
    victim = pool.pids()[1]
    os.kill(victim, signal.SIGSTOP)
    threading.Timer(1.0, os.kill, (victim, signal.SIGKILL)).start()
    start_s = time.monotonic()
    with pytest.raises(LostRolloutWorkerError, match="worker 1 is gone: its process has ended"):
        publication.publish(model, 2, [0, 1])
    assert time.monotonic() - start_s < 10.0
    assert versions_of(pool, 0, 1) == {1}

    # The other one gets them alone; the one that takes the lost one's place does afterwards.
    publication.forget(1)
    publish_to([0], 2)
    assert versions_of(pool, 0, 2) == {2}
    pool.restart(1)
    publish_to([1], 2)
    assert versions_of(pool, 1, 3) == {2}

    os.kill(pool.pids()[0], signal.SIGSTOP)
    start_s = time.monotonic()
    with pytest.raises(LostRolloutWorkerError, match="worker 0 is gone: it took no part"):
        publication.publish(model, 3, [0, 1])
    assert time.monotonic() - start_s < 15.0
    publication.forget(0)
    pool.restart(0)
    publish_to([0, 1], 3)
    assert versions_of(pool, 0, 4) == versions_of(pool, 1, 5) == {3}


def test_closing_ends_the_processes_whatever_they_do(pool, tiny_model):
    publish(pool, 1, tiny_model)
    pool.grant(0, [group(number) for number in range(200)])
    processes = [psutil.Process(pid) for pid in pool.pids()]
    start_s = time.monotonic()
    pool.close()
    pool.close()
    psutil.wait_procs(processes, timeout=5.0)
    assert not any(process.is_running() for process in processes)
    assert time.monotonic() - start_s < 5.0
