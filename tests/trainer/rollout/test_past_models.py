"""Checkpoints as opponents, and their ratings."""

import json

import pytest
from earl_trainer.checkpoint import CheckpointStore
from earl_trainer.rollout.past_models import PastModels
from earl_trainer.workers.team import Team


class Mute:
    def reply(self, queries):
        return []


@pytest.fixture
def checkpoint(tmp_path):
    def make(name, *, complete=True):
        (tmp_path / name / "model").mkdir(parents=True)
        if complete:
            (tmp_path / name / "COMPLETE").touch()

    return make


@pytest.fixture
def past(tmp_path):
    def make(*, sampling="recency", every_steps=10, version=99):
        loaded = []

        def load(folder):
            loaded.append(folder)
            return Mute()

        models = PastModels(
            CheckpointStore(tmp_path, keep=9),
            tmp_path / "ratings.jsonl",
            sampling=sampling,
            every_steps=every_steps,
            load=load,
            version=lambda: version,
            team=Team(),
        )
        return models, loaded

    return make


def lines_of(tmp_path):
    return [json.loads(line) for line in (tmp_path / "ratings.jsonl").read_text().splitlines()]


def test_whole_checkpoints_of_the_planned_steps_are_members(past, checkpoint):
    for name in ("step-000010", "step-000020", "step-000027", "step-000030.replaced"):
        checkpoint(name)
    checkpoint("step-000040", complete=False)
    checkpoint(".partial-step-000050")
    models, _ = past()
    pool = models.pool()

    # A checkpoint that is being replaced is still one.
    assert [(member.name, member.step) for member in pool.members] == [
        ("step-000010", 10),
        ("step-000020", 20),
        ("step-000030", 30),
    ]
    assert pool.probabilities["step-000030"] == pytest.approx(6 / 11)


def test_a_model_is_loaded_once_when_it_is_drawn_and_let_go_with_its_checkpoint(
    past, checkpoint, tmp_path
):
    for name in ("step-000010", "step-000020"):
        checkpoint(name)
    models, loaded = past()
    models.pool()
    assert loaded == []
    first = models.policy("step-000010")
    models.pool()
    assert models.policy("step-000010") is first
    assert loaded == [tmp_path / "step-000010" / "model"]
    (tmp_path / "step-000010" / "COMPLETE").unlink()

    assert [member.name for member in models.pool().members] == ["step-000020"]
    assert models._loaded == {}


def test_without_checkpoints_there_is_no_pool(past):
    models, _ = past()
    assert models.pool() is None


def test_ratings_follow_the_results_and_steer_the_draw(past, checkpoint):
    for name in ("step-000010", "step-000020"):
        checkpoint(name)
    models, _ = past(sampling="rating", version=30)
    pool = models.pool()
    assert pool.probabilities == pytest.approx({"step-000010": 0.5, "step-000020": 0.5})
    models.record(pool, [("step-000010", 1.0)] * 10 + [("step-000020", 0.0)] * 10)
    later, _ = past(sampling="rating", version=31)

    for pool in (models.pool(), later.pool()):
        # The one that the learner loses to is met more often.
        assert pool.probabilities["step-000020"] > 0.6
        ratings = {member.name: member.rating for member in pool.members}
        assert ratings["step-000020"] > pool.learner_rating > ratings["step-000010"]


def test_a_new_member_is_as_strong_as_the_learner(past, checkpoint):
    checkpoint("step-000010")
    models, _ = past(version=15)
    models.record(models.pool(), [("step-000010", 1.0)] * 5)
    checkpoint("step-000020")
    pool = models.pool()

    assert pool.learner_rating > 0
    assert pool.members[1].rating == pool.learner_rating


def test_ratings_are_appended_and_cut_once_when_a_run_goes_on(past, checkpoint, tmp_path):
    checkpoint("step-000010")
    version = [11]
    models, _ = past()
    models._version = lambda: version[0]
    for version[0] in (11, 12, 13):
        before = (tmp_path / "ratings.jsonl").read_text() if version[0] > 11 else ""
        models.record(models.pool(), [("step-000010", 1.0)])
        assert (tmp_path / "ratings.jsonl").read_text().startswith(before)
    whole = lines_of(tmp_path)
    assert [line["version"] for line in whole] == [11, 12, 13]
    # Killed after step 13 and resumed from 12: the same collection gives the same ratings.
    resumed, _ = past(version=12)
    assert lines_of(tmp_path) == whole[:1]
    assert resumed.pool().learner_rating == whole[0]["ratings"][""]
    resumed.record(resumed.pool(), [("step-000010", 1.0)])

    assert lines_of(tmp_path) == whole[:2]


def test_a_last_line_that_was_left_incomplete_is_dropped(past, checkpoint, tmp_path):
    checkpoint("step-000010")
    models, _ = past(version=11)
    models.record(models.pool(), [("step-000010", 1.0)])
    whole = lines_of(tmp_path)
    with (tmp_path / "ratings.jsonl").open("a") as file:
        file.write('{"version": 12, "rati')
    resumed, _ = past(version=13)

    assert lines_of(tmp_path) == whole
    assert resumed.pool().learner_rating == whole[0]["ratings"][""] > 0
