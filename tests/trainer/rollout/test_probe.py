"""What is scored at a switch."""

import copy

import pytest
import torch
from earl_trainer.rollout.probe import choose_probe, probe_columns, score_probe, split_probe


def test_a_probe_holds_the_longest_contexts_within_bounds():
    contexts = [[7] * length for length in (1, 5, 3, 2000, 2090, 4000, 9)]
    assert [len(each) for each in choose_probe(contexts)] == [4000, 9, 5, 3]
    assert len(choose_probe([[1, 2]] * 20)) == 8
    assert choose_probe([[1], []]) == []


def test_a_probe_is_cut_to_what_there_is_memory_for():
    contexts = [list(range(length)) for length in (9, 30, 4)]
    assert choose_probe(contexts, max_tokens=20) == [list(range(20))]
    assert choose_probe(contexts, max_tokens=34) == [list(range(30)), list(range(4))]
    assert choose_probe(contexts, max_tokens=1) == []
    assert choose_probe(contexts, max_tokens=10**6) == choose_probe(contexts)


def test_scores_come_apart_as_contexts_came_together():
    columns = probe_columns([[7, 8, 9], [3, 4]])
    assert columns.per_token["mask"].tolist() == [False, True, True, False, True]
    scored = torch.tensor([0.0, -1.0, -2.0, 0.0, -3.0])
    assert split_probe(columns, scored) == [[-1.0, -2.0], [-3.0]]


def test_a_whole_model_scores_every_token_but_the_first_at_temperature_one(tiny_model):
    probe = [[5, 9, 6, 7], [8, 5]]
    # Scoring changes how a model attends.
    scores = score_probe(copy.deepcopy(tiny_model), probe)
    for context, own in zip(probe, scores, strict=True):
        with torch.no_grad():
            law = tiny_model(torch.tensor([context])).logits[0].log_softmax(-1)
        expected = [law[place, token].item() for place, token in enumerate(context[1:])]
        assert own == pytest.approx(expected, abs=1e-5)
    assert score_probe(copy.deepcopy(tiny_model), []) == []
