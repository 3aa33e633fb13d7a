"""Learned models say what episodes are worth."""

import pytest
import torch
from earl_trainer.rewards.model import make_reward_model, score_contexts
from earl_trainer.rewards.model_scorer import ModelScorer, ModelWeight, parse_models
from earl_trainer.rewards.outcome import RewardFailure
from earl_trainer.rewards.scorer import add_scores


def test_models_are_written_with_their_weights():
    assert parse_models(["runs/a/reward-model=0.5", "own", "odd=name=2"]) == [
        ModelWeight(folder="runs/a/reward-model", weight=0.5),
        ModelWeight(folder="own", weight=1.0),
        ModelWeight(folder="odd=name", weight=2.0),
    ]
    for text in ("", "=1", "a=", "a=nan", "a=b"):
        with pytest.raises(ValueError, match="is written folder=weight") as caught:
            parse_models([text])
        assert repr(text) in str(caught.value)


@pytest.fixture
def make_models(make_llama):
    def make(*heads):
        models = [make_reward_model(make_llama(seed=seed)) for seed, _ in enumerate(heads)]
        for model, head in zip(models, heads, strict=True):
            torch.nn.init.constant_(model.score.weight, head)
        return models

    return make


def test_the_last_context_of_an_episode_is_scored(make_models, make_episode, make_turn):
    (model,) = make_models(0.3)
    turns = [make_turn([1], [2, 3]), make_turn([1, 2, 3, 4], [5])]
    scorer = ModelScorer([(model, 2.0)], ensemble="mean", doubt=0.0, max_tokens=16)
    found = scorer.score([make_episode(turns=turns), make_episode()])
    expected = score_contexts(model, [[1, 2, 3, 4, 5], [1, 2, 3, 4]], max_tokens=16)
    assert [each.value for each in found] == pytest.approx([2 * value for value in expected])


def test_several_models_are_an_ensemble(make_models, make_episode):
    models = make_models(0.3, -0.2)
    values = [score_contexts(model, [[1, 2, 3, 4]], max_tokens=16)[0] for model in models]
    pairs = [(model, 1.0) for model in models]
    for ensemble, expected in (("min", min(values)), ("mean", sum(values) / 2)):
        scorer = ModelScorer(pairs, ensemble=ensemble, doubt=1.0, max_tokens=16)
        assert scorer.score([make_episode()])[0].value == pytest.approx(expected, abs=1e-6)


def test_a_model_that_says_no_number_fails(make_models, make_episode):
    scorer = ModelScorer(
        [(make_models(float("nan"))[0], 1.0)], ensemble="mean", doubt=0.0, max_tokens=16
    )
    (judged,) = add_scores([make_episode()], [scorer], on_failure="drop")
    assert judged.judgement.bonus is None
    assert judged.judgement.outcomes["models"].failure is RewardFailure.ERROR
