"""From an output of vLLM's form to a completion."""

from types import SimpleNamespace

import pytest
from earl_trainer.rollout.engine import FinishReason
from earl_trainer.rollout.vllm_reply import labelled_versions, pick_logprobs, read_completion


def output_of(*, ids=(4, 9, 4), reason="stop", spans=(("3", 0, 2), ("4", 2, 3)), logprobs=None):
    places = [{token: SimpleNamespace(logprob=-float(token)), 1: None} for token in ids]
    return SimpleNamespace(
        outputs=[
            SimpleNamespace(
                token_ids=ids,
                logprobs=places if logprobs is None else logprobs,
                finish_reason=reason,
                weight_versions=[
                    SimpleNamespace(version=version, start=start, end=end)
                    for version, start, end in spans
                ]
                or None,
            )
        ]
    )


def test_each_token_has_its_log_prob_and_version():
    output = output_of()
    completion = read_completion(output, versions=labelled_versions(output))
    assert completion.ids == [4, 9, 4]
    assert completion.logprobs == [-4.0, -9.0, -4.0]
    assert completion.versions == [3, 3, 4]
    assert completion.finish_reason is FinishReason.STOP


def test_a_reply_that_was_ended_before_it_began_is_empty():
    output = output_of(ids=(), reason="abort", spans=(), logprobs=())
    completion = read_completion(output, versions=labelled_versions(output))
    assert (completion.ids, completion.logprobs, completion.versions) == ([], [], [])
    assert completion.finish_reason is FinishReason.ABORT


def test_a_token_without_its_log_prob_is_no_completion():
    with pytest.raises(ValueError, match="zip"):
        pick_logprobs([], [4])
