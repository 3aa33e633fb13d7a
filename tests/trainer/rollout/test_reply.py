"""How replies grow and why they end."""

import numpy as np
import pytest
import torch
from earl_trainer.rollout.engine import FinishReason, Request
from earl_trainer.rollout.reply import Reply, extend_replies
from earl_trainer.rollout.sampling import sample_tokens
from earl_trainer.seeding import uniforms


def make_reply(*, seed=0, temperature=1.0, max_new_tokens=4, stop_ids=None):
    return Reply(
        request=Request(
            sequence_id=0,
            prompt_ids=[1],
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            seed=seed,
            stop_ids=stop_ids,
        )
    )


def random_logits(num, *, seed=0):
    return torch.randn((num, 200), generator=torch.Generator().manual_seed(seed))


def test_a_token_is_drawn_by_its_own_seed_and_its_number_in_the_reply():
    replies = [make_reply(seed=seed) for seed in (7, 8, 7, 9)]
    logits = random_logits(4)
    logits[2] = logits[0]
    for version in range(4):
        extend_replies(replies[version:], logits[version:], version=version)

    for place, reply in enumerate(replies):
        assert reply.versions == list(range(place + 1))
        for count in range(place + 1):
            seeds = np.array([reply.request.seed], dtype=np.uint64)
            ids, logprobs = sample_tokens(
                logits[place : place + 1], temperatures=np.ones(1), uniforms=uniforms(seeds, count)
            )
            assert reply.ids[count] == ids.item()
            assert reply.logprobs[count] == pytest.approx(logprobs.item())
    assert replies[0].ids == replies[2].ids[:1]


def test_greedy_and_sampled_replies_are_extended_together():
    replies = [make_reply(temperature=temperature, seed=3) for temperature in (0.0, 0.5, 2.0)]
    logits = random_logits(1).expand(3, -1)
    extend_replies(replies, logits, version=0)
    assert replies[0].ids == [int(logits[0].argmax())]
    for reply in replies:
        scaled = logits[0] / (reply.request.temperature or 1.0)
        expected = scaled.log_softmax(-1)[reply.ids[0]].item()
        assert reply.logprobs == pytest.approx([expected], abs=1e-5)


def test_a_reply_ends_at_a_stop_token_or_at_its_limit():
    reply = make_reply(max_new_tokens=2)
    assert reply.finish_reason({5}) is None
    reply.ids.append(4)
    assert reply.finish_reason({5}) is None
    assert reply.finish_reason({4}) is FinishReason.STOP
    reply.ids.append(6)
    assert reply.finish_reason({5}) is FinishReason.LENGTH
    assert reply.finish_reason({6}) is FinishReason.STOP


def test_stop_tokens_of_the_request_take_the_place_of_those_of_the_engine():
    reply = make_reply(stop_ids=frozenset({4}))
    reply.ids.append(5)
    assert reply.finish_reason({5}) is None
    reply.ids.append(4)
    assert reply.finish_reason({5}) is FinishReason.STOP


def test_a_completion_does_not_change_when_the_reply_goes_on():
    reply = make_reply()
    extend_replies([reply], random_logits(1), version=3)
    completion = reply.completion(FinishReason.ABORT)
    extend_replies([reply], random_logits(1, seed=1), version=4)
    assert len(completion.ids) == len(completion.logprobs) == 1
    assert list(completion.versions) == [3]
    assert list(reply.completion(FinishReason.LENGTH).versions) == [3, 4]
    assert completion.finish_reason is FinishReason.ABORT
