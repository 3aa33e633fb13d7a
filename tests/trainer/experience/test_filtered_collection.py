"""Filters around a rollout stage that plays what it is told to."""

from dataclasses import replace

import pytest
from earl_trainer.experience.filtered_collection import FilteredCollection, later_round
from earl_trainer.experience.filters import FilterRules
from earl_trainer.rollout.collection import RolloutRequest
from earl_trainer.rollout.collector import Rollout
from earl_trainer.rollout.starts import grouped_starts
from earl_trainer.types import RunFailedError
from earl_trainer.workers.group import ALONE
from hypothesis import given, settings
from hypothesis import strategies as st

NUM_GROUPS, GROUP_SIZE = 4, 3
VARIED = FilterRules(names=("zero-variance",))


def starts_of(number):
    starts = grouped_starts(
        number, step=0, num_episodes=NUM_GROUPS * GROUP_SIZE, group_size=GROUP_SIZE, num_seats=2
    )
    return later_round(starts, number)


class Playing:
    """Gives every group rewards that vary if the group is named, and are equal if not."""

    def __init__(self, make_episode, varied, *, takes_starts):
        self.takes_starts = takes_starts
        self.make_episode = make_episode
        self.varied = varied
        self.asked = []
        self.figures = {"of": 1.0}

    def collect(self, request):
        starts = starts_of(0) if request.starts is None else request.starts
        self.asked.append([start.group for start in starts[::GROUP_SIZE]])
        episodes = [
            replace(
                self.make_episode(outcome=1.0 if start.group in self.varied else -1.0), start=start
            )
            for start in starts
        ]
        # The first of a varied group loses.
        episodes = [
            replace(each, games=[replace(each.games[0], outcome=-1.0)])
            if each.start.episode % GROUP_SIZE == 0
            else each
            for each in episodes
        ]
        return Rollout(episodes=episodes, peak_resident_tokens=10 + len(self.asked))

    def publish(self, model, version):
        raise AssertionError("no new weights in these tests")

    def to_dict(self):
        return {}

    def close(self):
        pass


@pytest.fixture(scope="session")
def filtered(make_episode):
    def make(varied, *, max_rounds=3, rules=VARIED, refills=True):
        playing = Playing(make_episode, varied, takes_starts=refills)
        return playing, FilteredCollection(
            playing,
            rules,
            lambda episodes: [episode.outcome for episode in episodes],
            ALONE,
            starts=lambda step, number: starts_of(number),
            max_rounds=max_rounds,
        )

    return make


def collect(collection):
    return collection.collect(RolloutRequest(step=7))


def test_groups_that_were_dropped_are_played_again_elsewhere_from_the_same_seat(filtered):
    playing, collection = filtered({0, 2, NUM_GROUPS + 3, 2 * NUM_GROUPS + 1})
    rollout = collect(collection)
    assert playing.asked == [[0, 1, 2, 3], [5, 7], [9]]
    seats = {episode.start.group: episode.start.seat for episode in rollout.episodes}
    assert seats == {0: 0, 1: 1, 2: 0, 3: 1, 5: 1, 7: 1, 9: 1}
    assert len({episode.start.episode for episode in rollout.episodes}) == 7 * GROUP_SIZE
    assert len({episode.start.table for episode in rollout.episodes}) == 7 * GROUP_SIZE
    assert len({episode.start.game_seed for episode in rollout.episodes}) == 7
    trained = {episode.start.group for episode in rollout.episodes if not episode.dropped_by}
    assert trained == {0, 2, 7, 9}
    assert rollout.peak_resident_tokens == 13
    assert collection.figures == {
        "of": 1.0,
        "filter/zero-variance": 3.0 * GROUP_SIZE,
        "filter/rounds": 3.0,
        "filter/kept_groups": 4.0,
        "filter/waived": 0.0,
    }


def test_nothing_is_played_again_where_nothing_is_missing(filtered):
    playing, collection = filtered({0, 1, 2, 3})
    collect(collection)
    assert playing.asked == [[0, 1, 2, 3]]
    assert collection.figures["filter/rounds"] == 1.0


def test_rounds_end_and_the_step_trains_on_what_there_is(filtered):
    playing, collection = filtered({1})
    rollout = collect(collection)
    assert playing.asked == [[0, 1, 2, 3], [4, 6, 7], [8, 10, 11]]
    assert sum(not episode.dropped_by for episode in rollout.episodes) == GROUP_SIZE
    assert collection.figures["filter/kept_groups"] == 1.0


def test_where_no_reward_ever_varies_rounds_end_and_everything_is_trained_on(filtered):
    playing, collection = filtered(set())
    rollout = collect(collection)
    assert len(playing.asked) == 3
    assert not any(episode.dropped_by for episode in rollout.episodes)
    assert collection.figures["filter/waived"] == 1.0
    assert collection.figures["filter/zero-variance"] == 0.0


def test_filters_that_leave_nothing_end_the_run_and_say_so(filtered):
    _, collection = filtered(set(), rules=FilterRules(names=("length",), min_tokens=99))
    with pytest.raises(RunFailedError, match=r"nothing .* of 36 episodes in 3 rounds: .* 36 by le"):
        collect(collection)


def test_a_stage_that_replaces_groups_itself_is_asked_once(filtered):
    playing, collection = filtered({1}, refills=False)
    collect(collection)
    assert playing.asked == [[0, 1, 2, 3]]


@settings(max_examples=30, deadline=None)
@given(st.sets(st.integers(0, 5 * NUM_GROUPS - 1), min_size=1), st.integers(1, 5))
def test_no_more_groups_are_kept_than_were_asked_for_and_counts_are_conserved(
    filtered, varied, max_rounds
):
    playing, collection = filtered(varied, max_rounds=max_rounds)
    rollout = collect(collection)
    groups = [group for asked in playing.asked for group in asked]
    assert len(playing.asked) <= max_rounds
    assert len(rollout.episodes) == GROUP_SIZE * len(groups)
    kept = collection.figures["filter/kept_groups"]
    if not collection.figures["filter/waived"]:
        assert kept == len(varied & set(groups)) <= NUM_GROUPS
        assert kept == NUM_GROUPS or len(playing.asked) == max_rounds
        assert collection.figures["filter/zero-variance"] == GROUP_SIZE * (len(groups) - kept)
