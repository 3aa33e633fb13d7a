"""What holds for every engine."""

from dataclasses import replace

import pytest
from earl_trainer.models.attention import use_attention
from earl_trainer.rollout.engine import Engine, FinishReason, Request
from earl_trainer.rollout.scripted_engine import ScriptedEngine
from earl_trainer.rollout.streaming_engine import StreamingEngine
from earl_trainer.rollout.transformers_engine import TransformersEngine

STOP = 2


@pytest.fixture(params=["scripted", "transformers", "streaming"])
def engine(request, make_llama):
    if request.param == "scripted":
        return ScriptedEngine(lambda prompt: [prompt[-1], 7, STOP], stop_ids={STOP})
    kind, model = request.param, make_llama()
    use_attention(model)
    made = StreamingEngine if kind == "streaming" else TransformersEngine
    return made(model, stop_ids=frozenset({STOP}), capacity_tokens=1000)


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


def test_a_reply_ends_at_stop_ids_of_its_own_beside_others_that_end_at_the_engines(engine):
    endless = replace(request_for(0, [3, 4], max_new_tokens=40), stop_ids=frozenset())
    (whole,) = engine.generate([endless])
    assert whole.finish_reason is FinishReason.LENGTH
    assert STOP in whole.ids
    last = next(token for token in whole.ids[1:] if token not in (STOP, whole.ids[0]))

    asked = (None, frozenset({last}), frozenset({STOP, last}))
    replies = engine.generate([
        replace(endless, sequence_id=number, stop_ids=stop_ids)
        for number, stop_ids in enumerate(asked, start=1)
    ])
    ends = [whole.ids.index(STOP), whole.ids.index(last)]
    for reply, end in zip(replies, [*ends, min(ends)], strict=True):
        assert list(reply.ids) == list(whole.ids[: end + 1])
        assert reply.finish_reason is FinishReason.STOP


def test_an_engine_of_one_process_refuses_another_degree(engine):
    engine.resize(1)
    with pytest.raises(ValueError, match="tp must be 1, got 2"):
        engine.resize(2)


def test_no_request_gives_no_completion(engine):
    assert engine.generate([]) == []
