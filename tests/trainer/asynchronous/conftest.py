"""Finished groups, and what workers are made from."""

import queue
import threading
import time

import pytest
from earl_envs import EndReason
from earl_trainer.asynchronous.config import AsynchronousConfig
from earl_trainer.asynchronous.ledger import FinishedGroup
from earl_trainer.asynchronous.receiver import WeightReceiver
from earl_trainer.asynchronous.worker_engine import WorkerSettings
from earl_trainer.asynchronous.workers import LostRolloutWorkerError
from earl_trainer.config import RolloutConfig, RunConfig
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.types import Episode, EpisodeStart, PlayedGame, Turn


@pytest.fixture(scope="session")
def group():
    """Make finished groups."""
    return _finished


def _finished(number, *, version=0, reason=EndReason.FINISHED, turns=1):
    """A group of one episode, whose tokens came from `version` on."""
    turn = Turn(
        prompt_ids=(1,),
        reply_ids=(2, 3),
        logprobs=(-1.0, -1.0),
        versions=(version, version + 1),
        text="",
        action=0,
        cut=False,
    )
    game = PlayedGame(game_seed=0, first_turn=0, moves=(0,), end_reason=reason, outcome=1.0)
    start = EpisodeStart(
        episode=number, table=number, group=number, seat=0, game_seed=0, reply_seed=0
    )
    return FinishedGroup(
        number=number, episodes=[Episode(start=start, turns=(turn,) * turns, games=(game,))]
    )


@pytest.fixture
def make_settings(tiny_model, tiny_tokenizer):
    """Make what a worker is made from; the fields are those of the asynchronous config."""

    def make(*, max_reply_tokens=4, **fields):
        config = RunConfig(
            rollout=RolloutConfig(
                num_episodes=8,
                group_size=4,
                max_reply_tokens=max_reply_tokens,
                max_context_tokens=200,
            ),
            asynchronous=AsynchronousConfig(**fields),
        )
        return WorkerSettings(
            config=config,
            blueprint=Blueprint.of(tiny_model),
            tokenizer=tiny_tokenizer,
            capacity_tokens=4000,
        )

    return make


class _FakeWorkers:
    """Workers in threads of this process, each with a real receiver; one may be made to fail.

    `fails[worker]` is `dead`, which is noticed at once, or `mute`, which only a timeout shows.
    """

    def __init__(self, num_workers):
        self.num_workers = num_workers
        self.receivers = {worker: WeightReceiver() for worker in range(num_workers)}
        self.fails, self.joined, self.received, self.published = {}, [], [], []
        self._asked, self.threads = {}, []

    def _ask(self, worker, call):
        if (fails := self.fails.get(worker)) is not None:
            self._asked[worker] = fails
            if fails == "dead":
                self.receivers[worker] = None  # Its connections are closed.
        else:
            self._asked[worker] = answer = queue.Queue()
            thread = threading.Thread(target=lambda: answer.put(call()), daemon=True)
            self.threads.append(thread)
            thread.start()

    def join(self, worker, meeting):
        self.joined.append((worker, meeting.rank, meeting.size))
        self._ask(worker, lambda: self.receivers[worker].join(meeting))

    def receive(self, worker, layout, bucket_bytes):
        self.received.append(worker)
        self._ask(worker, lambda: self.receivers[worker].receive(layout, bucket_bytes))

    def hear(self, timeout_s):
        told, deadline_s = {}, time.monotonic() + timeout_s
        while not told and time.monotonic() < deadline_s:
            for worker, answer in list(self._asked.items()):
                if answer == "dead":
                    del self._asked[worker]
                    raise LostRolloutWorkerError(worker, "its process has ended")
                if answer != "mute" and not answer.empty():
                    told[worker] = answer.get()
                    del self._asked[worker]
            time.sleep(0.001)
        return told

    def share(self, value):
        return value

    def publish(self, worker, version, weights, checksums):
        if weights is None:
            weights = self.receivers[worker].take()
        self.published.append((worker, version, weights, checksums))

    def wait_for_weights(self, timeout_s):
        return []

    def grant(self, worker, groups):
        pass

    def take(self, workers, timeout_s):
        return {}

    def restart(self, worker):
        """What the old process waited for is lost with it."""
        self.fails.pop(worker, None)
        self._asked.pop(worker, None)
        self.receivers[worker] = WeightReceiver()

    def abandon(self, worker):
        self._asked.pop(worker, None)

    def close(self):
        pass


@pytest.fixture
def make_fake_workers():
    """Make workers that hear of weights and do nothing else."""
    made = []

    def make(num_workers):
        made.append(_FakeWorkers(num_workers))
        return made[-1]

    yield make
    # One that is still inside a connection when Python ends would abort it.
    for thread in [thread for workers in made for thread in workers.threads]:
        thread.join(20.0)
        assert not thread.is_alive()
