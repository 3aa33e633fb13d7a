"""Workers in this process: what they were given, what came back, and what is lost with one."""

import time

import pytest
from earl_trainer.asynchronous.publication import StorePublication
from earl_trainer.asynchronous.workers import LostRolloutWorkerError, Workers


@pytest.fixture
def make_workers(load_tool):
    made, runs = [], load_tool("staleness_runs")

    def make(num_workers, failing=()):
        settings, model = runs.make_world()
        workers = load_tool("local_workers").LocalWorkers(
            settings, num_workers, fails=lambda group: group in failing
        )
        made.append(workers)
        assert isinstance(workers, Workers)
        StorePublication(workers).publish(model, 3, range(num_workers))
        return workers, lambda number: (number, runs.plan_group(number, num_games=2))

    yield make
    for workers in made:
        workers.close()
        workers.close()


def take_all(workers, numbers):
    groups, deadline_s = [], time.monotonic() + 60.0
    while len(groups) < numbers:
        told = workers.take(list(workers.playing), 0.1)
        groups += [group for news in told.values() for group in news.groups]
        assert time.monotonic() < deadline_s
    return groups


def test_groups_come_back_with_tokens_and_times_and_one_that_fails_is_no_training_data(
    make_workers,
):
    workers, plan = make_workers(1, failing={1})
    workers.grant(0, [plan(number) for number in range(3)])
    workers.watch(0.5)
    # What has ended counts as being played until somebody is told.
    assert workers.playing == {0: {0, 1, 2}}
    groups = take_all(workers, 3)
    assert workers.playing == {0: set()}
    assert {group.number: group.trainable for group in groups} == {0: True, 1: False, 2: True}
    for group in groups:
        replies = [[turn.reply_ids for turn in each.turns] for each in group.episodes]
        told = workers.told[group.number]
        assert list(told.emitted_tokens) == [sum(map(len, each)) for each in replies]
        assert min(told.emitted_tokens) > 0
        assert 0.0 < told.took_s < 60.0
        versions = {v for each in group.episodes for turn in each.turns for v in turn.versions}
        assert versions == {3}
    # One after the other at most: a group more took less than all of them.
    assert 0.0 < workers.seconds_per_group < max(told.took_s for told in workers.told.values())


def test_what_a_lost_worker_has_not_told_is_lost_and_the_others_news_are_not(make_workers):
    workers, plan = make_workers(2)
    workers.grant(0, [plan(0), plan(1)])
    workers.grant(1, [plan(2)])
    workers.watch(1.0)
    assert workers.lose(0) == 2
    with pytest.raises(LostRolloutWorkerError, match="worker 0 is gone"):
        workers.wait_for_weights(0.1)
    with pytest.raises(LostRolloutWorkerError, match="worker 0 is gone"):
        workers.publish(0, 4, [], None)
    told = workers.take([0, 1], 0.1)
    assert isinstance(told[0], LostRolloutWorkerError)
    groups = list(told[1].groups) or take_all(workers, 1)
    assert [group.number for group in groups] == [2]
    workers.restart(0)
    assert workers.playing == {0: set(), 1: set()}
    assert list(workers.wait_for_weights(0.1)) == []
    workers.grant(0, [plan(1)])
    assert [group.number for group in take_all(workers, 1)] == [1]
