"""What holds for every engine."""

import pytest
from earl_trainer.rollout.engine import Engine, FinishReason, Request
from earl_trainer.rollout.scripted_engine import ScriptedEngine
from earl_trainer.rollout.transformers_engine import TransformersEngine

STOP = 2


@pytest.fixture(params=["scripted", "transformers"])
def engine(request, make_llama):
    if request.param == "scripted":
        return ScriptedEngine(lambda prompt: [prompt[-1], 7, STOP], stop_ids={STOP})
    return TransformersEngine(make_llama(), stop_ids=frozenset({STOP}), capacity_tokens=1000)


def request_for(sequence_id, prompt_ids, max_new_tokens):
    return Request(
        sequence_id=sequence_id,
        prompt_ids=prompt_ids,
        max_new_tokens=max_new_tokens,
        temperature=1.0,
        seed=sequence_id,
    )


def test_an_engine_answers_every_request_within_its_limit_and_labels_every_token(engine):
    assert isinstance(engine, Engine)
    engine.load_weights(5)
    requests = [request_for(i, [3, 4, 5][: 1 + i], max_new_tokens=i + 1) for i in range(3)]
    completions = engine.generate(requests)
    assert engine.version == 5
    assert len(completions) == 3
    for asked, completion in zip(requests, completions, strict=True):
        assert 1 <= len(completion.ids) <= asked.max_new_tokens
        assert len(completion.logprobs) == len(completion.ids)
        assert list(completion.versions) == [5] * len(completion.ids)
        assert STOP not in completion.ids[:-1]
        stopped = completion.ids[-1] == STOP
        assert completion.finish_reason is (FinishReason.STOP if stopped else FinishReason.LENGTH)


def test_an_engine_of_one_process_refuses_another_degree(engine):
    engine.resize(1)
    with pytest.raises(ValueError, match="tp must be 1, got 2"):
        engine.resize(2)


def test_no_request_gives_no_completion(engine):
    assert engine.generate([]) == []
