"""Scoring is part of the rollout stage, whatever plays."""

from earl_trainer.rewards.outcome import RewardOutcome
from earl_trainer.rewards.scored_collection import ScoredCollection
from earl_trainer.rollout.collection import RolloutRequest
from earl_trainer.rollout.collector import Rollout
from torch import nn


class Played:
    """Hands out what it was given, and remembers what it was told."""

    def __init__(self, episodes):
        self.episodes, self.log = episodes, []
        self.takes_starts = True
        self.figures = {"reward/wait_s": 2.0, "async/age": 1.0}

    def collect(self, request):
        self.log.append(request)
        return Rollout(episodes=self.episodes, peak_resident_tokens=7)

    def publish(self, model, version):
        self.log.append(("publish", version))

    def to_dict(self):
        return {"under way": 3}

    def close(self):
        self.log.append("close")


class Ones:
    name, weight, num_closed = "ones", 3.0, 0

    def score(self, episodes):
        return [RewardOutcome(value=1.0)] * len(episodes)

    def close(self):
        self.num_closed += 1


def test_episodes_come_out_scored_and_all_else_as_it_was(make_episode):
    games, scorer, told = Played([make_episode(), make_episode()]), Ones(), []
    collection = ScoredCollection(games, [scorer], on_failure="drop")
    request = RolloutRequest(step=4, share_tokens=9, max_responses=2, on_turn=told.append)
    rollout = collection.collect(request)
    assert [each.judgement.bonus for each in rollout.episodes] == [3.0, 3.0]
    assert rollout.peak_resident_tokens == 7
    assert told == ["scoring"]
    assert collection.figures["async/age"] == 1.0
    # The engine waited for the functions, and then for this.
    assert 2.0 < collection.figures["reward/wait_s"] < 12.0
    collection.publish(nn.Linear(1, 1), 5)
    assert collection.to_dict() == {"under way": 3}
    collection.close()
    assert games.log == [request, ("publish", 5), "close"]
    assert scorer.num_closed == 1
