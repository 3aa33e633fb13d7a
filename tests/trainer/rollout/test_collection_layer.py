"""A layer hands on what is not about episodes, and layers stand on one another."""

from dataclasses import replace

import pytest
from earl_trainer.experience.filtered_collection import FilteredCollection, later_round
from earl_trainer.experience.filters import FilterRules
from earl_trainer.rewards.outcome import RewardOutcome
from earl_trainer.rewards.scored_collection import ScoredCollection
from earl_trainer.rollout.collection import RolloutRequest
from earl_trainer.rollout.collection_layer import CollectionLayer
from earl_trainer.rollout.collector import Rollout
from earl_trainer.rollout.starts import grouped_starts
from earl_trainer.workers.group import ALONE
from torch import nn


class Counting(CollectionLayer):
    """Reports how many episodes there were."""

    def collect(self, request):
        rollout = self._games.collect(request)
        self._own_figures = {"episodes": float(len(rollout.episodes)), "both": 2.0}
        return rollout


class Playing:
    def __init__(self, make_episode, *, takes_starts=True):
        self.make_episode = make_episode
        self.takes_starts = takes_starts
        self.figures = {"games": 3.0, "both": 1.0}
        self.log = []

    def collect(self, request):
        starts = starts_of(0) if request.starts is None else request.starts
        self.log.append([start.group for start in starts])
        episodes = [replace(self.make_episode(), start=start) for start in starts]
        return Rollout(episodes=episodes, peak_resident_tokens=1)

    def publish(self, model, version):
        self.log.append(version)

    def to_dict(self):
        return {"under": "way"}

    def close(self):
        self.log.append("closed")


def starts_of(number):
    starts = grouped_starts(number, step=0, num_episodes=4, group_size=2, num_seats=2)
    return later_round(starts, number)


@pytest.mark.parametrize("takes_starts", [True, False])
def test_all_that_is_not_about_episodes_is_the_other_ones(make_episode, takes_starts):
    games = Playing(make_episode, takes_starts=takes_starts)
    layer = Counting(Counting(games))
    assert layer.takes_starts == takes_starts
    assert layer.figures == games.figures
    layer.collect(RolloutRequest(step=0))
    assert layer.figures == {"games": 3.0, "both": 2.0, "episodes": 4.0}
    layer.publish(nn.Linear(1, 1), 7)
    assert layer.to_dict() == {"under": "way"}
    layer.close()
    assert games.log == [[0, 0, 1, 1], 7, "closed"]


class SecondRoundsVary:
    """Tells the episodes of later rounds apart, and finds those of the first alike."""

    name, weight = "model", 1.0

    def score(self, episodes):
        return [
            RewardOutcome(value=float(each.start.episode) if each.start.group > 1 else 0.0)
            for each in episodes
        ]

    def close(self):
        pass


def test_groups_that_are_played_in_place_of_dropped_ones_are_scored_before_they_are_judged(
    make_episode,
):
    games = Playing(make_episode)
    scored = ScoredCollection(games, [SecondRoundsVary()], on_failure="drop")
    collection = FilteredCollection(
        scored,
        FilterRules(names=("zero-variance",)),
        lambda episodes: [episode.judgement.bonus for episode in episodes],
        ALONE,
        starts=lambda step, number: starts_of(number),
        max_rounds=3,
    )
    rollout = collection.collect(RolloutRequest(step=0))
    assert games.log == [[0, 0, 1, 1], [2, 2, 3, 3]]
    kept = [each for each in rollout.episodes if not each.dropped_by]
    assert [each.judgement.bonus for each in kept] == [4.0, 5.0, 6.0, 7.0]
