"""Ratings that change whom the learner meets are told of."""

from types import MappingProxyType

import pytest
from earl_trainer.checkpoint import CheckpointStore
from earl_trainer.rollout.collection import RolloutRequest
from earl_trainer.rollout.collector import Rollout
from earl_trainer.rollout.league import LeagueCollection
from earl_trainer.rollout.past_models import PastModels
from earl_trainer.workers.team import Team


class Games:
    """Plays nothing, and rates the members by scores that it is given."""

    figures = MappingProxyType({})
    takes_starts = True

    def __init__(self, past, scores):
        self._past, self._scores = past, iter(scores)

    def collect(self, request):
        pool = self._past.pool()
        if pool is not None:
            self._past.record(pool, next(self._scores))
        return Rollout(episodes=[], peak_resident_tokens=0)

    def publish(self, model, version):
        pass

    def to_dict(self):
        return {}

    def close(self):
        pass


@pytest.fixture
def league(tmp_path):
    """Make a league of checkpoints at steps 10 and 20, and the notes of its collection."""

    def make(*scores, names=("step-000010", "step-000020")):
        for name in names:
            (tmp_path / name / "model").mkdir(parents=True)
            (tmp_path / name / "COMPLETE").touch()
        past = PastModels(
            CheckpointStore(tmp_path, keep=9),
            tmp_path / "ratings.jsonl",
            sampling="rating",
            every_steps=10,
            load=lambda folder: None,
            version=lambda: 25,
            team=Team(),
        )
        notes = []
        return LeagueCollection(Games(past, scores), past, notes.append), notes

    return make


def test_a_member_that_wins_comes_up_and_the_run_says_so(league):
    lost, drawn = [("step-000010", 0.0)], [("step-000010", 0.5)]
    collection, notes = league(lost, drawn)
    collection.collect(RolloutRequest(step=25))
    # One game at equal ratings: 16 (1 - 1/2) = 8 to the one, from the other.
    figures = collection.figures
    assert figures["league/members"] == 2.0
    assert figures["league/learner_rating"] == -8.0
    assert figures["league/most_met_step"] == 10.0
    assert figures["league/most_met_rating"] == 8.0
    # Weights (1 - p)^2 at 16 and 8 points above the learner.
    high, low = (1.0 / (1.0 + 10.0 ** (-gap / 400.0)) for gap in (16.0, 8.0))
    assert figures["league/most_met_share"] == pytest.approx(high**2 / (high**2 + low**2))
    assert notes == [
        "league: step-000010 is met most from here on, at 51 % of tables, as its rating is 8 and "
        "the learner's -8"
    ]
    collection.collect(RolloutRequest(step=26))
    assert len(notes) == 1


def test_before_the_first_checkpoint_there_is_no_league(league):
    collection, notes = league(names=())
    collection.collect(RolloutRequest(step=3))
    assert not collection.figures
    assert not notes
