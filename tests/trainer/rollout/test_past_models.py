"""Checkpoints as opponents, and their ratings."""

import json

import numpy as np
import pytest
from earl_envs import make_opponent
from earl_envs.evaluation.match import play_match
from earl_trainer.rollout.past_models import LanguageOpponent, PastModels
from earl_trainer.rollout.policies import LanguagePolicy, ScriptedPolicy
from earl_trainer.rollout.scripted_engine import ScriptedEngine

ID = "earl/TicTacToe-v0"


@pytest.fixture
def language_opponent(tic_tac_toe, tiny_chat):
    def make(policy):
        return LanguageOpponent(policy, game=tic_tac_toe, chat=tiny_chat, max_reply_tokens=4)

    return make


@pytest.fixture
def checkpoint(tmp_path):
    def make(name, *, complete=True):
        (tmp_path / name / "model").mkdir(parents=True)
        if complete:
            (tmp_path / name / "COMPLETE").touch()

    return make


class Mute:
    def reply(self, queries):
        return []


@pytest.fixture
def past(tmp_path, language_opponent):
    def make(*, sampling="recency", every_steps=10, version=99):
        loaded = []

        def load(folder):
            loaded.append(folder)
            return language_opponent(Mute())

        models = PastModels(
            tmp_path,
            sampling=sampling,
            every_steps=every_steps,
            load=load,
            version=lambda: version,
        )
        return models, loaded

    return make


def test_whole_checkpoints_of_the_planned_steps_are_members(past, checkpoint, tmp_path):
    for name in ("step-000010", "step-000020", "step-000027", "step-000030.replaced"):
        checkpoint(name)
    checkpoint("step-000040", complete=False)
    checkpoint(".partial-step-000050")
    models, loaded = past()
    pool = models.pool()

    assert [(member.name, member.step) for member in pool.members] == [
        ("step-000010", 10),
        ("step-000020", 20),
    ]
    assert loaded == [tmp_path / name / "model" for name in ("step-000010", "step-000020")]
    assert pool.probabilities["step-000020"] == pytest.approx(2 / 3)


def test_a_model_is_loaded_once_and_let_go_with_its_checkpoint(past, checkpoint, tmp_path):
    checkpoint("step-000010")
    models, loaded = past()
    (first,) = models.pool().members
    assert models.pool().members[0].opponent is first.opponent
    checkpoint("step-000020")
    (tmp_path / "step-000010" / "COMPLETE").unlink()

    assert [member.name for member in models.pool().members] == ["step-000020"]
    assert [folder.parent.name for folder in loaded] == ["step-000010", "step-000020"]
    assert list(models._loaded) == ["step-000020"]


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
    pool = later.pool()

    # The one that the learner loses to is met more often.
    assert pool.probabilities["step-000020"] > 0.6
    ratings = {member.name: member.rating for member in pool.members}
    assert ratings["step-000020"] > pool.learner_rating > ratings["step-000010"]


def test_a_new_member_is_as_strong_as_the_learner(past, checkpoint):
    checkpoint("step-000010")
    models, _ = past(version=15)
    models.record(models.pool(), [("step-000010", 1.0)] * 5)
    checkpoint("step-000020")
    later, _ = past(version=21)
    pool = later.pool()

    assert pool.learner_rating > 0
    assert pool.members[1].rating == pool.learner_rating


def test_a_resumed_run_takes_the_ratings_of_its_own_past(past, checkpoint, tmp_path):
    checkpoint("step-000010")
    for version in (11, 12, 13):
        models, _ = past(version=version)
        models.record(models.pool(), [("step-000010", 1.0)])

    def seen(version):
        return past(version=version)[0].pool().learner_rating

    assert 0.0 == seen(11) < seen(12) < seen(13) < seen(14)
    expected = seen(13)
    # Killed after step 13 and resumed from 12: the same collection gives the same ratings.
    models, _ = past(version=12)
    models.record(models.pool(), [("step-000010", 1.0)])
    assert seen(13) == expected
    lines = (tmp_path / "ratings.jsonl").read_text().splitlines()
    assert [json.loads(line)["version"] for line in lines] == [11, 12]


def test_a_language_model_is_an_opponent_like_any_other(language_opponent, tic_tac_toe, tiny_chat):
    script = ScriptedPolicy(make_opponent("first"), game=tic_tac_toe, chat=tiny_chat)
    match = play_match(ID, language_opponent(script), "random", num_games=20, seed=0)
    same = play_match(ID, "first", "random", num_games=20, seed=0)

    assert [episode.game.moves for episode in match.episodes] == [
        episode.game.moves for episode in same.episodes
    ]


def test_a_reply_that_is_no_move_is_the_opponents_error(language_opponent, tic_tac_toe, tiny_chat):
    engine = ScriptedEngine(lambda prompt: tiny_chat.encode_reply("X X"), stop_ids={0})
    opponent = language_opponent(LanguagePolicy(engine, temperature=1.0))
    with pytest.raises(ValueError, match=r"names no legal move: no complete \[move\]"):
        opponent.move(tic_tac_toe, (0, 0), 0, np.random.default_rng(0))
