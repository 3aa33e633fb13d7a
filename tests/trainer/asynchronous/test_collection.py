"""The learner's side: who is granted what, and what becomes of it when workers are slow or gone."""

import pytest
from earl_trainer.asynchronous.admission import Bound
from earl_trainer.asynchronous.collection import BackgroundCollection, BackgroundRules
from earl_trainer.asynchronous.ledger import GroupLedger, StalenessRules
from earl_trainer.asynchronous.publication import StorePublication
from earl_trainer.asynchronous.workers import LostRolloutWorkerError, Yield
from earl_trainer.rollout.collection import RolloutRequest
from earl_trainer.types import EpisodeStart, RunFailedError
from torch import nn


class Pool:
    """Workers in this process: each finishes a group per question, or is gone."""

    def __init__(self, finished, num_workers, *, dies=(), failing_restarts=0, late=()):
        self.finished = finished
        self.failing_restarts, self.late = failing_restarts, list(late)
        self.num_workers = num_workers
        self.granted = {worker: [] for worker in range(num_workers)}
        self.versions = {}
        self.dies, self.calls, self.closed = dict(dies), 0, 0
        self.restarted, self.abandoned, self.history, self.published = [], [], [], []

    def share(self, value):
        return value

    def publish(self, worker, version, weights, checksums):
        self.versions[worker] = version
        self.published.append((worker, version, checksums is not None))

    def wait_for_weights(self, timeout_s):
        return [worker for worker in self.late if worker not in self.abandoned]

    def grant(self, worker, groups):
        self.granted[worker] += [number for number, _ in groups]
        self.history += [(worker, number, self.versions.get(worker)) for number, _ in groups]

    def take(self, workers, timeout_s):
        self.calls += 1
        told = {}
        for worker in workers:
            if self.dies.get(worker) == self.calls:
                told[worker] = LostRolloutWorkerError(worker, "its process has ended")
                continue
            numbers, self.granted[worker] = self.granted[worker][:1], self.granted[worker][1:]
            told[worker] = Yield(
                groups=[self.finished(number, version=self.versions[worker]) for number in numbers],
                busy_s=1.0,
                idle_s=0.5,
                peak_resident_tokens=10 * worker,
                reward_wait_s=0.25,
            )
        return told

    def restart(self, worker):
        self.restarted.append(worker)
        self.granted[worker] = []
        if self.failing_restarts:
            self.failing_restarts -= 1
            raise LostRolloutWorkerError(worker, "it does not start")

    def abandon(self, worker):
        self.abandoned.append(worker)

    def close(self):
        self.closed += 1


def plan_nothing(number):
    return list[EpisodeStart]()


def collect(
    pool, *, batch=4, eta=1, bound=Bound.ADMISSION, steps=6, notes=None, check=False, cores=None,
    learner_cores=1, publication=None, timeout_s=5.0, **rules,
):  # fmt: skip
    collection = BackgroundCollection(
        pool,
        GroupLedger(StalenessRules(batch_groups=batch, max_staleness=eta, bound=bound)),
        plan_nothing,
        publication=publication or StorePublication(pool, check=check),
        rules=BackgroundRules(
            timeout_s=timeout_s,
            worker_cores=cores or (1,) * pool.num_workers,
            learner_cores=learner_cores,
            **rules,
        ),
        note=(notes if notes is not None else []).append,
    )
    trained, model = [], nn.Linear(2, 2)
    collection.publish(model, 0)
    for step in range(steps):
        rollout = collection.collect(RolloutRequest(step=step))
        trained.append([episode.start.group for episode in rollout.episodes])
        collection.publish(model, step + 1)
    return collection, trained


def test_groups_are_spread_evenly_and_trained_once_in_batches(group):
    pool = Pool(group, 3)
    collection, trained = collect(pool)
    assert [len(batch) for batch in trained] == [4] * 6
    numbers = [number for batch in trained for number in batch]
    assert len(set(numbers)) == len(numbers)
    shares = [sum(worker == each for worker, _, _ in pool.history) for each in range(3)]
    assert max(shares) - min(shares) <= 2
    assert collection.figures["async/consumed_groups"] == 24.0
    assert collection.figures["async/generation_idle_share"] == pytest.approx(1 / 3)


def test_time_without_anything_to_play_but_rewards_is_reported_where_there_are_functions(group):
    collection, _ = collect(Pool(group, 1), has_functions=True, steps=1)
    assert collection.figures["reward/wait_s"] == 0.25 * 4
    collection, _ = collect(Pool(group, 1), steps=1)
    assert "reward/wait_s" not in collection.figures


def test_at_staleness_0_the_batches_are_those_of_the_synchronous_run_and_begin_at_its_versions(
    group,
):
    pool = Pool(group, 2)
    _, trained = collect(pool, eta=0)
    assert trained == [list(range(4 * step, 4 * step + 4)) for step in range(6)]
    assert all(version == number // 4 for _, number, version in pool.history)


def test_no_more_groups_are_under_way_in_a_phase_that_begins_late(group):
    pool = Pool(group, 1)
    collection = BackgroundCollection(
        pool,
        GroupLedger(StalenessRules(batch_groups=4, max_staleness=1, bound=Bound.ADMISSION)),
        plan_nothing,
        publication=StorePublication(pool),
        rules=BackgroundRules(timeout_s=5.0, first_version=200),
        note=print,
    )
    collection.publish(nn.Linear(2, 2), 200)
    collection.collect(RolloutRequest(step=200))
    assert collection.figures["async/submitted_groups"] == 8.0


@pytest.mark.parametrize("max_restarts", [0, 1])
def test_the_groups_of_a_lost_worker_are_played_again(group, max_restarts):
    pool, notes = Pool(group, 2, dies={1: 3}), []
    _, trained = collect(pool, max_restarts=max_restarts, bound=Bound.STRICT, notes=notes)
    assert sorted(number for batch in trained for number in batch) == list(range(24))
    assert (pool.restarted, pool.abandoned) == (([1], []) if max_restarts else ([], [1]))
    assert len(notes) == 1
    assert "rollout worker 1 is gone: its process has ended" in notes[0]


def test_the_last_lost_worker_ends_the_run_by_its_name(group):
    with pytest.raises(RunFailedError, match=r"rollout worker 0 is gone.*none is left"):
        collect(Pool(group, 1, dies={0: 3}))


def test_a_batch_that_does_not_come_ends_the_run_in_time_and_says_who_is_late(group):
    class Idle(Pool):
        def take(self, workers, timeout_s):
            return super().take([1], timeout_s)

    idle = Idle(group, 2)
    collection = BackgroundCollection(
        idle,
        GroupLedger(StalenessRules(batch_groups=2, max_staleness=1, bound=Bound.ADMISSION)),
        plan_nothing,
        publication=StorePublication(idle),
        rules=BackgroundRules(timeout_s=0.2, worker_cores=(1, 1)),
        note=print,
    )
    collection.publish(nn.Linear(2, 2), 0)
    collection.collect(RolloutRequest(step=0))
    late = (
        r"no batch of groups within 0\.2 s: 2 are running \(2 at rollout worker 0\), 0 are waiting"
    )
    with pytest.raises(RunFailedError, match=late):
        collection.collect(RolloutRequest(step=0))


def test_weights_may_be_handed_over_every_few_versions_only(group):
    pool = Pool(group, 2)
    collect(pool, eta=2, publish_every=3, check=True, bound=Bound.STRICT)
    assert pool.published == [(w, v, True) for v in (0, 3, 6) for w in (0, 1)]
    # What is trained at a step was begun with weights at most two versions older.
    assert all(number // 4 - version <= 2 for _, number, version in pool.history)


class Flaky(StorePublication):
    """A broadcast, at some of which a worker is found to be gone before anybody has anything."""

    def __init__(self, pool, lost_at):
        super().__init__(pool)
        self.lost_at, self.tried, self.forgotten = dict(lost_at), [], []

    def publish(self, model, version, workers):
        self.tried.append((version, list(workers)))
        if (lost := self.lost_at.pop(len(self.tried), None)) is not None:
            raise LostRolloutWorkerError(lost, "its process has ended")
        super().publish(model, version, workers)

    def forget(self, worker):
        self.forgotten.append(worker)


@pytest.mark.parametrize("max_restarts", [0, 1, 2])
def test_a_worker_that_is_lost_while_weights_are_sent_is_replaced_and_all_get_them(
    group, max_restarts
):
    pool, notes = Pool(group, 3), []
    # The second try goes to the worker that was started anew, if one was, with the others.
    publication = Flaky(pool, {2: 1, 3: 2} if max_restarts == 2 else {2: 1})
    _, trained = collect(
        pool, max_restarts=max_restarts, notes=notes, publication=publication, bound=Bound.STRICT
    )
    assert sorted(number for batch in trained for number in batch) == list(range(24))
    left = [0, 1, 2] if max_restarts else [0, 2]
    assert publication.forgotten == [1, 2][: max(1, max_restarts)]
    assert publication.tried[0] == (0, [0, 1, 2])
    assert [version for version, _ in publication.tried[1:3]] == [1, 1]
    assert publication.tried[2 + (max_restarts == 2)] == (1, left)
    # Nobody was told of the weights before they had reached everybody.
    assert pool.published[3 : 3 + len(left)] == [(worker, 1, False) for worker in left]
    assert len(notes) == max(1, max_restarts)


def test_who_is_started_anew_gets_the_newest_weights_before_it_is_granted_anything(group):
    pool = Pool(group, 2, dies={1: 4})
    collect(pool, eta=2, publish_every=3, max_restarts=1, bound=Bound.STRICT)
    restart = next(place for place, (_, version, _) in enumerate(pool.published) if version % 3)
    worker, version, _ = pool.published[restart]
    assert worker == 1
    assert 0 < version < 3
    assert all(granted_version is not None for _, _, granted_version in pool.history)
    assert (1, version) in {(worker, granted) for worker, _, granted in pool.history}


@pytest.mark.parametrize(
    ("max_restarts", "failing", "restarted", "abandoned"),
    [(3, 1, [1, 1], []), (2, 5, [1, 1], [1])],
)
def test_a_restart_that_fails_is_tried_again_or_done_without(
    group, max_restarts, failing, restarted, abandoned
):
    pool, notes = Pool(group, 2, dies={1: 4}, failing_restarts=failing), []
    _, trained = collect(pool, max_restarts=max_restarts, notes=notes, bound=Bound.STRICT)
    assert sorted(number for batch in trained for number in batch) == list(range(24))
    assert (pool.restarted, pool.abandoned) == (restarted, abandoned)
    assert sum("does not start" in note for note in notes) == len(restarted) - 1 + len(abandoned)


def test_who_does_not_take_over_weights_in_time_is_done_without_by_name(group):
    pool, notes = Pool(group, 2, late=[1]), []
    collect(pool, max_restarts=0, notes=notes, timeout_s=0.2, steps=1)
    assert pool.abandoned == [1]
    assert notes == [
        "rollout worker 1 is gone: it has not taken over new weights within 0.2 s; "
        "the others play its 0 groups"
    ]
    with pytest.raises(RunFailedError, match=r"rollout worker 0 is gone.*; none is left"):
        collect(Pool(group, 1, late=[0]), max_restarts=0, timeout_s=0.2)


def test_faster_workers_are_granted_more(group):
    pool = Pool(group, 2)
    collect(pool, batch=12, cores=(1, 3), steps=1)
    shares = [sum(worker == each for worker, _, _ in pool.history[:24]) for each in range(2)]
    assert shares == [6, 18]


def test_a_better_split_is_shown_at_every_batch_and_said_once_in_the_end(group):
    notes = []
    # A worker's second of every question stands against next to no time of the learner's.
    collection, _ = collect(Pool(group, 1), notes=notes)
    assert collection.figures["async/proposed_split"] > 0.9
    assert collection.figures["async/publish_s"] < 1.0
    collection.close()
    collection.close()
    assert len(notes) == 1
    assert notes[0].startswith("a split of 1.00 would make batches follow one another up to")


def test_where_cores_are_shared_no_split_is_proposed(group):
    notes = []
    collection, _ = collect(Pool(group, 1), notes=notes, learner_cores=None)
    collection.close()
    assert "async/proposed_split" not in collection.figures
    assert notes == []


def test_closing_twice_ends_the_workers(group):
    pool = Pool(group, 1)
    collection, _ = collect(pool, steps=1)
    collection.close()
    collection.close()
    assert pool.closed == 2
