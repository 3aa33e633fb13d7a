"""The streaming engine against whole forward passes, the engine that plays in waves, and itself."""

import copy
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from earl_trainer.models.attention import use_attention
from earl_trainer.rollout.engine import Engine, FinishReason, Request
from earl_trainer.rollout.sampling import sample_tokens
from earl_trainer.rollout.streaming_engine import StreamingEngine
from earl_trainer.rollout.transformers_engine import TransformersEngine
from earl_trainer.seeding import uniforms
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel, Qwen2Config, Qwen2ForCausalLM

NUM_VOCAB = 25
STOP_IDS = frozenset(range(20, 25))  # many, so that replies end at different times
PROMPTS = [[5, 6, 7], [8], [5, 6, 7], [9, 10, 11, 12, 13, 14], [15, 16]]
SUFFIXES = (PROMPTS, [[20], [21, 22], [20], [5, 6, 7], [6, 7]], [[8], [7, 7], [9], [10, 11], [12]])
MODELS = pytest.mark.parametrize("model", ["llama", "gpt2", "qwen2"], indirect=True)


def make_gpt2(seed):
    config = GPT2Config(
        vocab_size=NUM_VOCAB, n_positions=256, n_embd=16, n_layer=2, n_head=2,
        bos_token_id=None, eos_token_id=None, initializer_range=0.5,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def make_qwen2(seed):
    config = Qwen2Config(
        vocab_size=NUM_VOCAB, hidden_size=24, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=256,
        bos_token_id=None, eos_token_id=None, initializer_range=0.5,
    )  # fmt: skip
    return Qwen2ForCausalLM(config)


def seeded(make, seed):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make(seed).eval()


@pytest.fixture(scope="module")
def llama(tiny_model):
    model = copy.deepcopy(tiny_model)
    use_attention(model)
    return model


@pytest.fixture(scope="module")
def model(request, llama):
    if request.param == "llama":
        return llama
    made = seeded({"gpt2": make_gpt2, "qwen2": make_qwen2}[request.param], 0)
    use_attention(made)
    return made


def make_engine(model, *, stop_ids=STOP_IDS, capacity_tokens=1 << 12, **options):
    return StreamingEngine(model, stop_ids=stop_ids, capacity_tokens=capacity_tokens, **options)


def ask(sequence_id, prompt_ids, *, max_new_tokens=6, temperature=1.0, seed=None):
    return Request(
        sequence_id=sequence_id,
        prompt_ids=prompt_ids,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=1000 + sequence_id if seed is None else seed,
    )


@torch.no_grad()
def assert_is_the_reference(models, request, completion):
    """Compare with whole passes, one token at a time, by the weights of each token's version."""
    ids = []
    for count, version in enumerate(completion.versions):
        context = torch.tensor([[*request.prompt_ids, *ids]])
        drawn, logprob = sample_tokens(
            models[version](input_ids=context).logits[:, -1],
            temperatures=np.array([request.temperature]),
            uniforms=uniforms(np.array([request.seed], dtype=np.uint64), count),
        )
        assert completion.ids[count] == drawn.item(), f"token {count} of {completion}"
        assert completion.logprobs[count] == pytest.approx(logprob.item(), abs=2e-5)
        ids.append(drawn.item())
    assert len(completion.ids) == len(completion.logprobs) == len(completion.versions)


def assert_all_are_the_reference(model, requests, completions):
    for request, completion in zip(requests, completions, strict=True):
        assert_is_the_reference({0: model}, request, completion)


def advance_until_idle(engine):
    ended = []
    while engine.load.num_running or engine.load.num_waiting:
        ended += engine.advance()
    return dict(ended)


@contextmanager
def recorded_tokens(model):
    """Collect the number of tokens of every forward pass."""
    tokens = []

    def record(module, args, kwargs):
        tokens.append(kwargs["input_ids"].numel())

    handle = model.register_forward_pre_hook(record, with_kwargs=True)
    yield tokens
    handle.remove()


@contextmanager
def other_weights(model, *, scale=1.5):
    """Change a model in place, for a while; yields what it was before."""
    before = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(scale).add_(0.1 * torch.eye(*parameter.shape))
    yield before
    model.load_state_dict(before.state_dict())


def test_it_is_an_engine(llama):
    assert isinstance(make_engine(llama), Engine)


@MODELS
@pytest.mark.parametrize("temperature", [0.0, 1.0, 0.7])
def test_replies_are_those_of_whole_passes_and_of_the_engine_in_waves(model, temperature):
    requests = [
        ask(i, prompt, temperature=temperature, max_new_tokens=12)
        for i, prompt in enumerate(PROMPTS)
    ]
    completions = make_engine(model).generate(requests)
    assert_all_are_the_reference(model, requests, completions)
    waves = TransformersEngine(model, stop_ids=STOP_IDS, capacity_tokens=1 << 12)
    for one, other in zip(completions, waves.generate(requests), strict=True):
        assert list(one.ids) == list(other.ids)
        assert one.finish_reason == other.finish_reason


@MODELS
def test_three_turns_read_what_is_new_only(model):
    engine = make_engine(model)
    contexts = [[] for _ in PROMPTS]
    for turn, suffixes in enumerate(SUFFIXES):
        requests = [
            ask(i, contexts[i] + suffixes[i], max_new_tokens=3 + i) for i in range(len(PROMPTS))
        ]
        with recorded_tokens(model) as tokens:
            completions = engine.generate(requests)
        assert_all_are_the_reference(model, requests, completions)
        contexts = [
            [*asked.prompt_ids, *reply.ids]
            for asked, reply in zip(requests, completions, strict=True)
        ]
        # The last token of a reply has not been through the model; it comes with the suffix.
        new = sum(len(suffix) + 1 for suffix in suffixes) if turn else 3 + 1 + 6 + 2
        assert tokens[0] == new
        # Every reply's tokens but the last, without padding.
        assert sum(tokens) == new + sum(len(reply.ids) - 1 for reply in completions)


@MODELS
def test_requests_join_and_leave_at_every_pass(model):
    requests = [
        ask(i, PROMPTS[i % 5] + [8] * (i % 3), max_new_tokens=1 + (5 * i) % 7) for i in range(14)
    ]
    engine, ended = make_engine(model, stop_ids=frozenset()), {}
    for number, request in enumerate(requests):
        engine.submit(request)
        ended |= engine.advance()
        if number % 4 == 3:
            for sequence_id in ended:
                engine.release(sequence_id)
    assert len(ended) > 5
    ended |= advance_until_idle(engine)
    assert_all_are_the_reference(model, requests, [ended[i] for i in range(14)])


def test_a_reply_ends_in_the_very_pass_that_emits_its_last_token(llama):
    engine = make_engine(llama, stop_ids=frozenset())
    for i, limit in enumerate((1, 3, 2)):
        engine.submit(ask(i, [5, 6], max_new_tokens=limit))
    ended = [[sequence_id for sequence_id, _ in engine.advance()] for _ in range(4)]
    assert ended == [[0], [2], [1], []]


def test_replies_depend_neither_on_the_batch_nor_on_the_order(llama):
    requests = [ask(i, prompt) for i, prompt in enumerate(PROMPTS)]
    together = make_engine(llama).generate(requests)
    reverse = make_engine(llama).generate(requests[::-1])[::-1]
    alone = [make_engine(llama).generate([request])[0] for request in requests]
    assert [reply.ids for reply in together] == [reply.ids for reply in reverse]
    assert [reply.ids for reply in together] == [reply.ids for reply in alone]
    again = [ask(i, [5, 6], seed=seed) for i, seed in enumerate([1, 2, 3, 4, 5, 6, 7, 1])]
    replies = [reply.ids for reply in make_engine(llama).generate(again)]
    assert len(set(replies)) > 3
    assert replies[0] == replies[-1]


@MODELS
def test_the_first_prompt_of_a_group_is_read_once(model):
    group = [ask(i, PROMPTS[3]) for i in range(5)]
    engine = make_engine(model, stop_ids=frozenset())
    with recorded_tokens(model) as tokens:
        for request in group[:3]:
            engine.submit(request)
        engine.advance()
        engine.submit(group[3])
        engine.advance()
        engine.submit(group[4])
        ended = advance_until_idle(engine)
    # Those that come later read the last token only.
    assert tokens[:4] == [6, 3 + 1, 4 + 1, 5]
    assert_all_are_the_reference(model, group, [ended[i] for i in range(5)])
    apart = make_engine(model, stop_ids=frozenset(), share_prefixes=False)
    with recorded_tokens(model) as tokens:
        assert [reply.ids for reply in apart.generate(group)] == [ended[i].ids for i in range(5)]
    assert tokens[0] == 5 * 6


def test_those_that_come_while_a_groups_prompt_is_read_wait_for_it(llama):
    engine = make_engine(llama, stop_ids=frozenset(), max_read_tokens=2)
    group = [ask(i, PROMPTS[3], max_new_tokens=4) for i in range(3)]
    with recorded_tokens(llama) as tokens:
        for request in group:
            engine.submit(request)
            engine.advance()
        ended = advance_until_idle(engine)
    assert tokens == [2, 2, 2, 3, 3, 3]
    assert_all_are_the_reference(llama, group, [ended[i] for i in range(3)])


def test_a_group_whose_first_has_been_cancelled_reads_its_prompt_all_the_same(llama):
    engine = make_engine(llama, max_read_tokens=4)
    group = [ask(i, PROMPTS[3]) for i in range(2)]
    for request in group:
        engine.submit(request)
    engine.advance()
    assert engine.cancel(0).ids == ()
    ended = advance_until_idle(engine)
    assert_is_the_reference({0: llama}, group[1], ended[1])
    again = engine.generate([group[0]])
    assert_all_are_the_reference(llama, group[:1], again)


def test_long_prompts_do_not_keep_replies_waiting(llama):
    engine = make_engine(llama, stop_ids=frozenset(), max_read_tokens=4)
    requests = [ask(0, [5, 6], max_new_tokens=9), ask(1, list(range(5, 20)), max_new_tokens=2)]
    engine.submit(requests[0])
    engine.advance()
    engine.submit(requests[1])
    with recorded_tokens(llama) as tokens:
        ended = advance_until_idle(engine)
    assert tokens == [1 + 4, 1 + 4, 1 + 4, 1 + 3, 1 + 1, 1, 1, 1]
    assert_all_are_the_reference(llama, requests, [ended[0], ended[1]])


@MODELS
def test_new_weights_in_mid_reply_keep_what_was_emitted_and_go_on_from_it(model):
    engine = make_engine(model, stop_ids=frozenset())
    prompt = [5, 6, 7]
    requests = [ask(0, prompt, max_new_tokens=10), ask(1, prompt, max_new_tokens=10)]
    requests.append(ask(2, [9, 10, 11, 12], max_new_tokens=7, temperature=0.0))
    for request in requests:
        engine.submit(request)
    ended = dict([*engine.advance(), *engine.advance(), *engine.advance()])
    with other_weights(model) as old, recorded_tokens(model) as tokens:
        engine.load_weights(1)
        assert engine.load.held_bytes == engine.resident_tokens == 0
        assert engine.load.num_running == 3
        ended |= engine.advance()
        assert tokens == [(3 + 3) + (3 + 3) + (4 + 3)], "every context is read anew"
        engine.submit(late := ask(3, prompt, max_new_tokens=2))
        ended |= advance_until_idle(engine)
        models = {0: old, 1: model}
        for request in (*requests, late):
            assert_is_the_reference(models, request, ended[request.sequence_id])
            assert len(ended[request.sequence_id].ids) == request.max_new_tokens
        context = torch.tensor([[*prompt, *ended[0].ids[:3]]])
        difference = old(input_ids=context).logits - model(input_ids=context).logits
        assert difference.abs().max() > 0.1, "weights that hardly differ would prove nothing"
    assert list(ended[0].versions) == [0] * 3 + [1] * 7
    assert list(ended[2].versions) == [0] * 3 + [1] * 4
    assert list(ended[3].versions) == [1, 1]
    assert requests[0].prompt_ids == prompt == [5, 6, 7]
    assert requests[0].max_new_tokens == 10


def test_new_weights_between_two_turns_read_the_whole_context_anew(llama):
    engine = make_engine(llama, stop_ids=frozenset())
    first = ask(0, [5, 6, 7], max_new_tokens=3)
    (reply,) = engine.generate([first])
    second = ask(0, [*first.prompt_ids, *reply.ids, 8, 9], max_new_tokens=3)
    with other_weights(llama), recorded_tokens(llama) as tokens:
        engine.load_weights(4)
        assert engine.version == 4
        assert engine.load.num_sequences_held == 0
        (reply,) = engine.generate([second])
        assert tokens[0] == 8
        assert_is_the_reference({4: llama}, second, reply)
    assert list(reply.versions) == [4] * 3


def test_values_that_are_not_finite_are_gone_with_the_weights_that_made_them(llama):
    engine = make_engine(llama, stop_ids=frozenset())
    with other_weights(llama):
        with torch.no_grad():
            llama.model.layers[0].self_attn.v_proj.weight.fill_(float("nan"))
        engine.generate([ask(i, PROMPTS[3], max_new_tokens=3) for i in range(2)])
    engine.load_weights(1)
    # The shorter one's row is read as far as the longer's: what lies behind its end is masked.
    requests = [ask(2, [5], max_new_tokens=3), ask(3, [5, 6, 7], max_new_tokens=3)]
    for request, reply in zip(requests, engine.generate(requests), strict=True):
        assert_is_the_reference({1: llama}, request, reply)


def test_what_does_not_fit_waits_and_what_is_idle_makes_room(llama):
    engine = make_engine(llama, stop_ids=frozenset(), capacity_tokens=24, max_context_tokens=8)
    contexts = {}
    for sequence_id in range(3):
        request = ask(sequence_id, [5, 6, 7 + sequence_id], max_new_tokens=2)
        contexts[sequence_id] = [*request.prompt_ids, *engine.generate([request])[0].ids]
    for sequence_id in range(3, 6):
        engine.submit(ask(sequence_id, [5, 6, 7 + sequence_id], max_new_tokens=3))
    engine.submit(ask(6, [5, 6], max_new_tokens=1))
    with recorded_tokens(llama) as tokens:
        assert engine.advance() == []
        assert (engine.load.num_running, engine.load.num_waiting) == (3, 1)
        assert [number for number, _ in engine.advance()] == []
        assert [number for number, _ in engine.advance()] == [3, 4, 5]
        assert [number for number, _ in engine.advance()] == [6]
    assert tokens == [9, 3, 3, 2]
    # Of the six the least recently used are gone, and are read anew: 4 and 5 are still there.
    assert engine.load.num_sequences_held == 3
    requests = [ask(0, [*contexts[0], 8], max_new_tokens=2)]
    with recorded_tokens(llama) as tokens:
        completions = engine.generate(requests)
    assert tokens == [6, 1]
    assert_all_are_the_reference(llama, requests, completions)


@MODELS
def test_replies_are_the_same_however_little_room_there_is(model):
    roomy = make_engine(model)
    tight = make_engine(model, capacity_tokens=40)
    narrow = make_engine(model, capacity_tokens=60, max_context_tokens=30)
    requests = [ask(i, prompt) for i, prompt in enumerate(PROMPTS)]
    for _ in range(3):
        expected = roomy.generate(requests)
        for engine in (tight, narrow):
            got = engine.generate(requests)
            assert [reply.ids for reply in got] == [reply.ids for reply in expected]
            assert 0 < engine.load.allocated_tokens <= engine.capacity_tokens
        requests = [
            ask(asked.sequence_id, [*asked.prompt_ids, *reply.ids, 7], max_new_tokens=3)
            for asked, reply in zip(requests, expected, strict=True)
        ]
    assert_all_are_the_reference(model, requests, tight.generate(requests))


def test_keys_of_grouped_heads_are_kept_once(request):
    model = seeded(make_qwen2, 0)
    use_attention(model)
    engine = make_engine(model, max_context_tokens=16)
    engine.generate([ask(i, [5 + i]) for i in range(3)])
    assert engine.load.allocated_tokens == 3 * 16
    # Two layers, keys and values, two heads of four numbers of four bytes.
    assert engine.load.held_bytes == 3 * 16 * 2 * 2 * 2 * 4 * 4
    assert engine.resident_tokens < 3 * 16


def test_half_precision_is_kept_and_is_near_the_engine_in_waves(make_llama):
    model = make_llama(dtype=torch.bfloat16)
    use_attention(model)
    engine = make_engine(model, stop_ids=frozenset(), max_context_tokens=16)
    request = ask(0, [5, 6, 7], temperature=0.0)
    (reply,) = engine.generate([request])
    assert engine.load.held_bytes == 16 * 2 * 2 * 16 * 2
    ids = torch.tensor([[*request.prompt_ids, *reply.ids]])
    logits = model(input_ids=ids).logits[0, 2:-1].float()
    expected = logits.log_softmax(-1).gather(1, torch.tensor(reply.ids)[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(reply.logprobs), expected, atol=0.05, rtol=0.0)


def test_without_keeping_conversations_each_turn_is_read_whole(llama):
    engine = make_engine(llama, stop_ids=frozenset(), keep_conversations=False)
    first = ask(0, [5, 6, 7], max_new_tokens=3)
    (reply,) = engine.generate([first])
    assert engine.load.num_sequences_held == 0
    second = ask(0, [*first.prompt_ids, *reply.ids, 8], max_new_tokens=3)
    with recorded_tokens(llama) as tokens:
        completions = engine.generate([second])
    assert tokens[0] == 7
    assert_all_are_the_reference(llama, [second], completions)


def test_a_released_row_is_free_and_its_conversation_forgotten(llama):
    engine = make_engine(llama, stop_ids=frozenset())
    first = ask(0, [5, 6, 7], max_new_tokens=3)
    (reply,) = engine.generate([first])
    engine.release(0)
    engine.release(0)
    assert engine.load.num_sequences_held == engine.resident_tokens == 0
    with recorded_tokens(llama) as tokens:
        engine.generate([ask(0, [*first.prompt_ids, *reply.ids, 8])])
    assert tokens[0] == 7


def test_a_cancelled_reply_is_valid_as_far_as_it_got_and_goes_on_from_what_is_held(llama):
    engine = make_engine(llama, stop_ids=frozenset())
    request = ask(0, [5, 6, 7], max_new_tokens=10)
    engine.submit(request)
    engine.submit(ask(1, [8], max_new_tokens=10))
    engine.advance()
    engine.advance()
    cut = engine.cancel(0)
    assert cut.finish_reason is FinishReason.ABORT
    assert len(cut.ids) == 2
    assert_is_the_reference({0: llama}, request, cut)
    rest = ask(0, [*request.prompt_ids, *cut.ids], max_new_tokens=2)
    engine.submit(rest)
    waiting = engine.cancel(0)
    assert (waiting.ids, waiting.finish_reason) == ((), FinishReason.ABORT)
    engine.submit(rest)
    with recorded_tokens(llama) as tokens:
        ended = advance_until_idle(engine)
    assert tokens[0] == 2
    assert_is_the_reference({0: llama}, rest, ended[0])


def test_an_interrupt_from_another_thread_ends_generate_with_what_there_is(llama):
    model = copy.deepcopy(llama)
    engine = make_engine(model, stop_ids=frozenset(), capacity_tokens=44)
    num_passes = 0

    def interrupt_in_the_third_pass(*_):
        nonlocal num_passes
        num_passes += 1
        if num_passes == 3:
            thread = threading.Thread(target=engine.interrupt)
            thread.start()
            thread.join()

    handle = model.register_forward_hook(interrupt_in_the_third_pass)
    requests = [ask(i, [5 + i, 6], max_new_tokens=20) for i in range(3)]
    completions = engine.generate(requests)
    handle.remove()
    assert [len(reply.ids) for reply in completions] == [3, 3, 0]
    assert {reply.finish_reason for reply in completions} == {FinishReason.ABORT}
    assert engine.load.num_running == engine.load.num_waiting == 0
    assert_all_are_the_reference(model, requests, completions)
    whole = engine.generate(requests)
    assert [len(reply.ids) for reply in whole] == [20, 20, 20], "the interrupt is spent"


def test_a_pass_that_fails_leaves_nothing_wrong_behind(llama):
    model = copy.deepcopy(llama)
    engine = make_engine(model, stop_ids=frozenset())
    fails = [False, True, False, False]

    def fail_in_the_second_pass(module, args):
        if fails and fails.pop(0):
            raise RuntimeError("no memory")

    handle = model.model.layers[1].register_forward_pre_hook(fail_in_the_second_pass)
    requests = [ask(i, [5, 6, 7], max_new_tokens=4) for i in range(2)]
    engine.submit(requests[0])
    engine.advance()
    engine.submit(requests[1])
    with pytest.raises(RuntimeError, match="no memory"):
        engine.advance()
    ended = advance_until_idle(engine)
    assert_all_are_the_reference(model, requests, [ended[0], ended[1]])

    fails[:] = [False, True]
    with pytest.raises(RuntimeError, match="no memory"):
        engine.generate(requests)
    handle.remove()
    assert engine.load.num_running == engine.load.num_waiting == 0
    assert_all_are_the_reference(model, requests, engine.generate(requests))


def test_each_reply_keeps_to_its_own_limit_and_says_why_it_ended(llama):
    requests = [
        ask(i, [5, 6], max_new_tokens=limit, seed=i) for i, limit in enumerate([1, 2, 3, 30, 30])
    ]
    completions = make_engine(llama).generate(requests)
    for asked, reply in zip(requests, completions, strict=True):
        assert 1 <= len(reply.ids) <= asked.max_new_tokens
        assert STOP_IDS.isdisjoint(reply.ids[:-1])
        stopped = reply.ids[-1] in STOP_IDS
        assert reply.finish_reason is (FinishReason.STOP if stopped else FinishReason.LENGTH)
        assert stopped or len(reply.ids) == asked.max_new_tokens
    reasons = {reply.finish_reason for reply in completions}
    assert reasons == {FinishReason.STOP, FinishReason.LENGTH}


def test_what_cannot_be_answered_is_refused_at_once(llama):
    engine = make_engine(llama, stop_ids=frozenset(), capacity_tokens=30, max_context_tokens=8)
    with pytest.raises(ValueError, match="a context of 9 tokens does not fit: it may have 8"):
        engine.submit(ask(0, [5, 6, 7], max_new_tokens=6))
    with pytest.raises(ValueError, match="needs a prompt and max_new_tokens of at least 1, got 0"):
        engine.submit(ask(0, []))
    with pytest.raises(ValueError, match="got 1 tokens and 0"):
        engine.submit(ask(0, [5], max_new_tokens=0))
    with pytest.raises(ValueError, match="does not fit: it may have 30"):
        make_engine(llama, capacity_tokens=30).submit(ask(0, [5], max_new_tokens=30))
    engine.submit(ask(0, [5]))
    with pytest.raises(ValueError, match="sequence 0 is still being answered"):
        engine.submit(ask(0, [5]))
    with pytest.raises(ValueError, match="alone: 1 others run or wait"):
        engine.generate([ask(1, [5])])
    engine.advance()
    with pytest.raises(ValueError, match="sequence 0 is still being answered: cancel it first"):
        engine.release(0)
    with pytest.raises(ValueError, match="sequence 7 is not being answered"):
        engine.cancel(7)
    engine.close()
    assert engine.load.num_running == engine.load.num_waiting == engine.load.held_bytes == 0
    with pytest.raises(ValueError, match="sequence 0 is not being answered"):
        engine.cancel(0)
    with pytest.raises(ValueError, match="is still being answered"):
        engine.generate([ask(1, [5]), ask(1, [5])])
    assert engine.load.num_waiting == 0


def test_settings_without_sense_are_refused(llama):
    with pytest.raises(ValueError, match="max_context_tokens must be at least 1, got 0"):
        make_engine(llama, max_context_tokens=0)
    with pytest.raises(ValueError, match="max_read_tokens must be at least 1, got 0"):
        make_engine(llama, max_read_tokens=0)
    engine = make_engine(llama)
    engine.resize(1)
    with pytest.raises(ValueError, match="tp must be 1, got 2"):
        engine.resize(2)
    assert engine.generate([]) == []
    assert engine.advance() == []


def test_a_model_that_cannot_attend_to_packed_rows_is_refused(tiny_model):
    with pytest.raises(ValueError, match="call use_attention"):
        make_engine(copy.deepcopy(tiny_model)).generate([ask(0, [5, 6])])


class Schedule:
    """An engine, what it has been asked, and the weights that it had."""

    def __init__(self, model, engine):
        self.model, self.engine = model, engine
        self.base, self.models = copy.deepcopy(model), {0: copy.deepcopy(model)}
        self.asked, self.contexts, self.ended = {}, {}, []

    def submit(self, number, limit):
        if number in self.asked:
            return
        prompt = [*self.contexts.get(number, [5, 6 + number % 2]), 8]
        prompt = prompt if len(prompt) + limit <= 30 else [5, 9]
        request = ask(number, prompt, max_new_tokens=limit, seed=len(self.ended))
        self.asked[number] = request
        self.engine.submit(request)

    def advance(self):
        for number, completion in self.engine.advance():
            self._end(number, completion)

    def drop(self, number):
        if number in self.asked:
            self._end(number, self.engine.cancel(number))
        else:
            self.engine.release(number)

    def load_weights(self):
        version = len(self.models)
        put_weights(self.model, self.base, scale=1.0 + 0.05 * version)
        self.models[version] = copy.deepcopy(self.model)
        self.engine.load_weights(version)

    def _end(self, number, completion):
        request = self.asked.pop(number)
        self.ended.append((request, completion))
        self.contexts[number] = [*request.prompt_ids, *completion.ids]


@torch.no_grad()
def put_weights(model, source, *, scale):
    for parameter, original in zip(model.parameters(), source.parameters(), strict=True):
        parameter.copy_(original * scale)


@settings(derandomize=True, max_examples=25, deadline=None)
@given(data=st.data())
def test_whatever_happens_when_replies_are_those_of_one_by_one(llama, data):
    capacity = data.draw(st.integers(30, 150))
    engine = make_engine(
        llama,
        capacity_tokens=capacity,
        max_context_tokens=data.draw(st.sampled_from([None, 30])),
        max_read_tokens=data.draw(st.sampled_from([1, 4, 100])),
    )
    schedule = Schedule(llama, engine)
    actions = ["submit"] * 5 + ["advance"] * 7 + ["drop", "load_weights"]
    try:
        for _ in range(data.draw(st.integers(5, 40))):
            number = data.draw(st.integers(0, 5))
            match data.draw(st.sampled_from(actions)):
                case "submit":
                    schedule.submit(number, data.draw(st.integers(1, 6)))
                case "advance":
                    schedule.advance()
                case "drop":
                    schedule.drop(number)
                case _:
                    schedule.load_weights()
            load = engine.load
            assert load.resident_tokens <= load.allocated_tokens <= capacity
            assert load.num_running + load.num_waiting == len(schedule.asked)
        while schedule.asked:
            schedule.advance()
        for request, completion in schedule.ended:
            assert_is_the_reference(schedule.models, request, completion)
    finally:
        put_weights(llama, schedule.base, scale=1.0)
