"""The engine whose replies are written down."""

import pytest
from earl_trainer.rollout.engine import FinishReason, Request
from earl_trainer.rollout.scripted_engine import ScriptedEngine


def ask(engine, prompt_ids, max_new_tokens=4):
    (completion,) = engine.generate([
        Request(
            sequence_id=0,
            prompt_ids=prompt_ids,
            max_new_tokens=max_new_tokens,
            temperature=1.0,
            seed=0,
        )
    ])
    return completion


def test_replies_come_from_the_script_and_carry_the_version():
    engine = ScriptedEngine(lambda prompt: [prompt[-1], prompt[0], 0], stop_ids={0})
    engine.load_weights(3)

    completion = ask(engine, [5, 7])

    assert completion.ids == (7, 5, 0)
    assert completion.versions == (3, 3, 3)
    assert completion.logprobs == (0.0, 0.0, 0.0)
    assert completion.finish_reason is FinishReason.STOP


def test_a_script_that_is_too_long_is_cut():
    completion = ask(ScriptedEngine(lambda prompt: [1, 2, 0], stop_ids={0}), [9], max_new_tokens=2)

    assert completion.ids == (1, 2)
    assert completion.finish_reason is FinishReason.LENGTH


def test_a_script_without_a_stop_token_counts_as_cut():
    completion = ask(ScriptedEngine(lambda prompt: [1], stop_ids={0}), [9])

    assert completion.finish_reason is FinishReason.LENGTH


def test_it_has_one_rank():
    engine = ScriptedEngine(lambda prompt: [0], stop_ids={0})
    engine.resize(1)
    with pytest.raises(ValueError, match="tp must be 1, got 2"):
        engine.resize(2)
