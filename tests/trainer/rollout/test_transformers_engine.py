"""The embedded engine against whole forward passes, `generate`, and itself in other batches."""

import copy
import threading
import weakref
from contextlib import contextmanager

import pytest
import torch
from earl_selector import DeviceSpec, MemoryModel, ModelShape
from earl_trainer.rollout.engine import FinishReason, Request
from earl_trainer.rollout.kv_cache import _Layer
from earl_trainer.rollout.transformers_engine import TransformersEngine
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel

NUM_VOCAB = 25
STOP_IDS = frozenset(range(20, 25))  # many, so that replies end at different times
PROMPTS = [[5, 6, 7], [8], [5, 6, 7], [9, 10, 11, 12, 13, 14], [15, 16]]
SUFFIXES = (PROMPTS, [[20], [21, 22], [20], [5, 6, 7], [6, 7]], [[8], [], [9], [10, 11], [12]])
MODELS = pytest.mark.parametrize("which", ["tiny_model", "gpt2"])


@pytest.fixture(scope="module")
def gpt2():
    """A model with learned positions."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        config = GPT2Config(
            vocab_size=NUM_VOCAB, n_positions=256, n_embd=16, n_layer=2, n_head=2,
            bos_token_id=None, eos_token_id=None, initializer_range=0.5,
        )  # fmt: skip
        return GPT2LMHeadModel(config).eval()


def make_engine(model, *, stop_ids=STOP_IDS, capacity_tokens=1 << 20, **options):
    return TransformersEngine(model, stop_ids=stop_ids, capacity_tokens=capacity_tokens, **options)


def ask(sequence_id, prompt_ids, *, max_new_tokens=6, temperature=1.0, seed=None):
    return Request(
        sequence_id=sequence_id,
        prompt_ids=prompt_ids,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=1000 + sequence_id if seed is None else seed,
    )


@torch.no_grad()
def whole_logprobs(model, request, reply_ids):
    """Log-probs of the reply from one forward pass over the final sequence."""
    ids = [*request.prompt_ids, *reply_ids]
    logits = model(input_ids=torch.tensor([ids])).logits[0].float() / (request.temperature or 1.0)
    first = len(request.prompt_ids) - 1
    return logits.log_softmax(-1)[first:-1].gather(1, torch.tensor(reply_ids)[:, None])[:, 0]


def assert_logprobs_are_those_of_a_whole_pass(model, requests, completions):
    for request, completion in zip(requests, completions, strict=True):
        torch.testing.assert_close(
            torch.tensor(completion.logprobs),
            whole_logprobs(model, request, list(completion.ids)),
            atol=1e-5,
            rtol=0.0,
        )


@contextmanager
def recorded_inputs(model):
    """Collect the shape of every forward pass."""
    shapes = []

    def record(module, args, kwargs):
        shapes.append(tuple(kwargs["input_ids"].shape))

    handle = model.register_forward_pre_hook(record, with_kwargs=True)
    yield shapes
    handle.remove()


@MODELS
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_three_turns_from_the_cache_have_the_logprobs_of_whole_passes(which, temperature, request):
    model = request.getfixturevalue(which)
    engine = make_engine(model)
    contexts = [[] for _ in PROMPTS]
    first_shapes, num_lengths = [], []
    for suffixes, kept in zip(SUFFIXES, ([0, 1, 2, 3, 4], [0, 2, 3, 4], [3, 0, 4]), strict=True):
        requests = [
            ask(i, contexts[i] + suffixes[i], temperature=temperature, max_new_tokens=3 + i)
            for i in kept
        ]
        with recorded_inputs(model) as shapes:
            completions = engine.generate(requests)
        assert_logprobs_are_those_of_a_whole_pass(model, requests, completions)
        for asked, reply in zip(requests, completions, strict=True):
            contexts[asked.sequence_id] = [*asked.prompt_ids, *reply.ids]
        first_shapes.append(shapes[0])
        num_lengths.append(len({len(reply.ids) for reply in completions}))
    assert sorted(num_lengths)[1] > 1, "replies must end at different times, or this is no test"
    assert first_shapes[0] == (4, 6), "equal first prompts are prefilled once"
    # The last token of a reply has not been through the model; it comes with the suffix.
    assert first_shapes[1:] == [(4, 4), (3, 3)], "later turns prefill new tokens only"


@MODELS
def test_greedy_replies_are_those_of_the_librarys_generate(which, request):
    model = request.getfixturevalue(which)
    requests = [
        ask(i, prompt, temperature=0.0, max_new_tokens=12) for i, prompt in enumerate(PROMPTS)
    ]
    completions = make_engine(model).generate(requests)

    for asked, completion in zip(requests, completions, strict=True):
        prompt = torch.tensor([asked.prompt_ids])
        expected = model.generate(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=12,
            eos_token_id=sorted(STOP_IDS),
            pad_token_id=0,
        )
        assert list(completion.ids) == expected[0, prompt.shape[1] :].tolist()
    assert_logprobs_are_those_of_a_whole_pass(model, requests, completions)


def test_replies_depend_neither_on_the_batch_nor_on_the_order(tiny_model):
    requests = [ask(i, prompt) for i, prompt in enumerate(PROMPTS)]
    together = make_engine(tiny_model).generate(requests)

    reverse = make_engine(tiny_model).generate(requests[::-1])[::-1]
    alone = [make_engine(tiny_model).generate([request])[0] for request in requests]

    assert [reply.ids for reply in together] == [reply.ids for reply in reverse]
    assert [reply.ids for reply in together] == [reply.ids for reply in alone]


def test_samples_of_one_prompt_differ_and_equal_seeds_agree(tiny_model):
    requests = [ask(i, [5, 6], seed=seed) for i, seed in enumerate([1, 2, 3, 4, 5, 6, 7, 1])]
    replies = [tuple(reply.ids) for reply in make_engine(tiny_model).generate(requests)]

    assert len(set(replies)) > 3
    assert replies[0] == replies[-1]


def test_several_waves_give_the_same_replies_over_several_turns(tiny_model):
    roomy, tight = make_engine(tiny_model), make_engine(tiny_model, capacity_tokens=25)
    requests = [ask(i, prompt) for i, prompt in enumerate(PROMPTS)]
    for _ in range(2):
        expected = roomy.generate(requests)
        with recorded_inputs(tiny_model) as shapes:
            got = tight.generate(requests)
        assert max(num_rows for num_rows, _ in shapes) < len(requests)
        assert [reply.ids for reply in got] == [reply.ids for reply in expected]
        requests = [
            ask(asked.sequence_id, [*asked.prompt_ids, *reply.ids, 7], max_new_tokens=3)
            for asked, reply in zip(requests, got, strict=True)
        ]


def test_a_request_larger_than_the_capacity_is_refused(tiny_model):
    engine = make_engine(tiny_model, capacity_tokens=8)
    with pytest.raises(ValueError, match="a context of 9 tokens does not fit the capacity of 8"):
        engine.generate([ask(0, [5, 6, 7], max_new_tokens=6)])


def play_turns(engine, schedule, *, max_new_tokens=3):
    """Ask for the sequences of each call of a schedule, each time with two more tokens."""
    contexts, asked, replies = {}, [], []
    for call in schedule:
        requests = [
            ask(i, [*contexts.get(i, [5, 6, 7 + i % 3]), 8, 9], max_new_tokens=max_new_tokens)
            for i in call
        ]
        completions = engine.generate(requests)
        for request, reply in zip(requests, completions, strict=True):
            contexts[request.sequence_id] = [*request.prompt_ids, *reply.ids]
        asked += requests
        replies += completions
    return asked, replies


@MODELS
def test_seats_that_take_turns_keep_their_caches(which, request):
    model = request.getfixturevalue(which)
    with recorded_inputs(model) as shapes:
        asked, replies = play_turns(make_engine(model), [[0, 2], [1, 3], [2, 0], [1, 3], [2], [1]])

    assert_logprobs_are_those_of_a_whole_pass(model, asked, replies)
    # Whole prompts of five tokens twice, then never more than a suffix with a reply's last token.
    widths = [width for _, width in shapes if width > 1]
    assert widths[:2] == [5, 5]
    assert max(widths[2:]) <= 3


@MODELS
def test_a_call_may_mix_what_earlier_calls_asked_for_with_what_is_new(which, request):
    model = request.getfixturevalue(which)
    schedule = [[0, 1, 2], [3, 4], [4, 0, 3], [5, 1, 4, 2], [3, 0, 1, 2, 5, 4], [0, 1, 2, 3, 4, 5]]
    with recorded_inputs(model) as shapes:
        asked, replies = play_turns(make_engine(model), schedule)
    alone = [make_engine(model).generate([one])[0] for one in asked]

    assert_logprobs_are_those_of_a_whole_pass(model, asked, replies)
    assert [list(reply.ids) for reply in replies] == [list(reply.ids) for reply in alone]
    assert sum(width > 3 for _, width in shapes) == 3, "only what is new is read whole"


def test_what_was_not_asked_for_longest_is_dropped_when_the_capacity_is_full(tiny_model):
    # Seven tokens are held after a turn and twelve after two; the last turn needs 13 of 30.
    tight = make_engine(tiny_model, stop_ids=frozenset(), capacity_tokens=30)
    asked, replies = play_turns(tight, [[0], [1], [2], [0], [2]])

    assert tight._held.sequence_ids == [0, 2]
    assert_logprobs_are_those_of_a_whole_pass(tiny_model, asked, replies)


def test_more_than_fits_at_once_is_read_again_only_where_it_must_be(tiny_model):
    # Two of the four fit at once in the second and third round: what a round's first wave drops is
    # read whole by its second, which the next round begins with.
    tight = make_engine(tiny_model, stop_ids=frozenset(), capacity_tokens=30)
    asked, replies = play_turns(tight, [[0, 1, 2, 3]])
    for suffix, expected in (([8, 9], [(2, 3), (2, 10)]), ([8], [(2, 2), (2, 13)])):
        asked = [
            ask(one.sequence_id, [*one.prompt_ids, *reply.ids, *suffix], max_new_tokens=2)
            for one, reply in zip(asked, replies, strict=True)
        ]
        with recorded_inputs(tiny_model) as shapes:
            replies = tight.generate(asked)
        assert [shape for shape in shapes if shape[1] > 1] == expected
        assert_logprobs_are_those_of_a_whole_pass(tiny_model, asked, replies)


@contextmanager
def recorded_slots(model):
    """Collect the slots, by their storage, that lie anywhere during passes and during copies."""
    layers, slots, copied_slots = weakref.WeakSet(), [], []
    start, fill = _Layer.__init__, _Layer.fill

    def measure():
        rooms = [room for layer in layers for room in (layer.room_keys, layer.room_values)]
        return sum(room.untyped_storage().nbytes() for room in rooms) / (2 * 2 * 32 * 4)

    def recorded_start(self, target):
        start(self, target)
        layers.add(self)

    def recorded_fill(self, parts):
        fill(self, parts)
        copied_slots.append(measure())

    handle = model.register_forward_hook(lambda *_: slots.append(measure()))
    _Layer.__init__, _Layer.fill = recorded_start, recorded_fill
    try:
        yield slots, copied_slots
    finally:
        _Layer.__init__, _Layer.fill = start, fill
        handle.remove()


@settings(derandomize=True, max_examples=25, deadline=None)
@given(data=st.data())
def test_whatever_the_capacity_replies_are_the_same_and_no_more_is_held(tiny_model, data):
    lengths = st.integers(1, 9)
    prompts = data.draw(st.lists(lengths, min_size=1, max_size=6))
    contexts = [[5 + row % 2] * length for row, length in enumerate(prompts)]
    rounds = [
        {
            row: (data.draw(lengths), data.draw(st.integers(1, 5)))
            for row in data.draw(
                st.lists(
                    st.integers(0, len(prompts) - 1), min_size=1, max_size=len(prompts), unique=True
                )
            )
        }
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    longest = max(prompts) + sum(max(2 * new + limit for new, limit in r.values()) for r in rounds)
    capacity_tokens = data.draw(st.integers(longest, 4 * longest))
    roomy, calls, expected = make_engine(tiny_model), [], []
    for asked in rounds:
        requests = [
            ask(row, contexts[row] + [7, 8] * new, max_new_tokens=limit, temperature=0.0)
            for row, (new, limit) in asked.items()
        ]
        calls.append(requests)
        expected.append([reply.ids for reply in roomy.generate(requests)])
        for request, ids in zip(requests, expected[-1], strict=True):
            contexts[request.sequence_id] = [*request.prompt_ids, *ids]

    with recorded_slots(tiny_model) as (slots, copied_slots):
        tight = make_engine(tiny_model, capacity_tokens=capacity_tokens)
        got = [[reply.ids for reply in tight.generate(requests)] for requests in calls]
    assert max(slots) <= capacity_tokens
    # One layer of the two lies there twice while it is copied.
    assert max(copied_slots, default=0) <= 1.5 * capacity_tokens
    assert got == expected


def test_what_is_held_is_counted_in_bytes_and_its_peak_lasts_until_new_weights(tiny_model):
    engine = make_engine(tiny_model, stop_ids=frozenset(), capacity_tokens=30)
    assert engine.kv_bytes_per_token is None
    assert engine.held_bytes == engine.peak_held_bytes == 0
    engine.generate([ask(i, [5 + i, 6], max_new_tokens=5) for i in range(4)])
    slot_bytes = engine.kv_bytes_per_token
    assert engine.held_bytes == engine.peak_held_bytes == 4 * 7 * slot_bytes

    engine.generate([ask(4, [5, 6], max_new_tokens=13)])
    # Beside one row of 15 fit two of the four, which take six tokens each.
    assert engine.held_bytes == (2 * 6 + 15) * slot_bytes
    assert engine.peak_held_bytes == 4 * 7 * slot_bytes
    engine.load_weights(1)
    assert engine.held_bytes == engine.peak_held_bytes == 0


def test_a_token_takes_the_bytes_that_the_memory_model_says(tiny_model):
    engine = make_engine(tiny_model)
    engine.generate([ask(0, [5, 6, 7])])
    memory = MemoryModel(
        shape=ModelShape.from_config(tiny_model.config.to_dict()),
        device=DeviceSpec.cpu(1 << 30),
        bytes_per_parameter=tiny_model.dtype.itemsize,
        bytes_per_kv_value=tiny_model.dtype.itemsize,
        utilisation=1.0,
        reserve_bytes=0,
    )
    assert engine.kv_bytes_per_token == memory.kv_bytes_per_token(1)


def test_a_pass_that_fails_leaves_nothing_to_continue(tiny_model):
    model = copy.deepcopy(tiny_model)
    engine = make_engine(model, stop_ids=frozenset())
    first = ask(0, [5, 6, 7])
    (reply,) = engine.generate([first])
    num_passes = 0

    def fail_in_the_third_pass(module, args):
        nonlocal num_passes
        num_passes += 1
        if num_passes == 3:
            raise RuntimeError("no memory")

    handle = model.model.layers[1].register_forward_pre_hook(fail_in_the_third_pass)
    second = ask(0, [*first.prompt_ids, *reply.ids, 8])
    with pytest.raises(RuntimeError, match="no memory"):
        engine.generate([second])
    handle.remove()
    assert engine.held_bytes == 0
    assert_logprobs_are_those_of_a_whole_pass(model, [second], engine.generate([second]))


def test_new_weights_drop_the_caches_of_the_old_ones(tiny_model):
    model = copy.deepcopy(tiny_model)
    engine = make_engine(model)
    first = ask(0, [5, 6, 7])
    (reply,) = engine.generate([first])
    assert list(reply.versions) == [0] * len(reply.ids)

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    engine.load_weights(3)
    second = ask(0, [*first.prompt_ids, *reply.ids, 8])
    completions = engine.generate([second])

    assert_logprobs_are_those_of_a_whole_pass(model, [second], completions)
    assert completions[0].ids == make_engine(model).generate([second])[0].ids
    assert list(completions[0].versions) == [3] * len(completions[0].ids)
    assert engine.version == 3


def test_a_prompt_that_does_not_extend_its_conversation_starts_anew(tiny_model):
    engine = make_engine(tiny_model)
    engine.generate([ask(0, [5, 6, 7]), ask(1, [8])])
    requests = [ask(0, [5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]), ask(1, [8, 9, 9, 9, 9, 9, 9, 9, 9])]

    assert_logprobs_are_those_of_a_whole_pass(tiny_model, requests, engine.generate(requests))


@pytest.mark.parametrize("from_thread", [False, True])
def test_an_interrupt_returns_what_there_is(tiny_model, from_thread):
    model = copy.deepcopy(tiny_model)
    engine = make_engine(model, stop_ids=frozenset({16}))
    requests = [ask(i, prompt, max_new_tokens=10, seed=i) for i, prompt in enumerate(PROMPTS[:2])]
    prompts = [list(request.prompt_ids) for request in requests]
    whole = engine.generate(requests)
    assert min(len(reply.ids) for reply in whole) > 4
    num_passes = 0

    def interrupt_during_the_third_pass(module, args, output):
        nonlocal num_passes
        num_passes += 1
        if num_passes == 3 and from_thread:
            thread = threading.Thread(target=engine.interrupt)
            thread.start()
            thread.join()
        elif num_passes == 3:
            engine.interrupt()

    engine.load_weights(0)
    handle = model.register_forward_hook(interrupt_during_the_third_pass)
    cut = engine.generate(requests)
    handle.remove()

    for reply, full in zip(cut, whole, strict=True):
        assert len(reply.ids) == len(reply.logprobs) == len(reply.versions) == 3
        assert list(reply.ids) == list(full.ids[:3])
        assert reply.finish_reason is FinishReason.ABORT
    assert [list(request.prompt_ids) for request in requests] == prompts
    assert [request.max_new_tokens for request in requests] == [10, 10]
    # The interrupt is spent: the same question is answered whole, and so is a continuation.
    assert [reply.ids for reply in engine.generate(requests)] == [reply.ids for reply in whole]


def test_engines_that_compute_together_stop_where_they_agree_to(tiny_model):
    told, answers = [], iter([False, False, True])

    def agree(interrupted):
        told.append(interrupted)
        return next(answers)

    engine = make_engine(tiny_model, stop_ids=frozenset(), agree=agree)
    (cut,) = engine.generate([ask(0, [5, 6, 7], max_new_tokens=10)])
    assert len(cut.ids) == 3
    assert cut.finish_reason is FinishReason.ABORT
    assert told == [False] * 3


def test_an_interrupt_that_the_others_do_not_agree_to_waits(tiny_model):
    model, told = copy.deepcopy(tiny_model), []

    def agree(interrupted):
        told.append(interrupted)
        return False

    engine = make_engine(model, stop_ids=frozenset(), agree=agree)
    handle = model.register_forward_hook(lambda *_: engine.interrupt())
    (reply,) = engine.generate([ask(0, [5, 6, 7], max_new_tokens=4)])
    handle.remove()
    assert len(reply.ids) == 4
    assert told == [True] * 3


def test_an_interrupted_conversation_goes_on_from_the_cache(tiny_model):
    model = copy.deepcopy(tiny_model)
    engine = make_engine(model, stop_ids=frozenset({16}))
    handle = model.register_forward_hook(lambda *_: engine.interrupt())
    first = ask(0, [5, 6, 7], max_new_tokens=10, seed=0)
    (cut,) = engine.generate([first])
    handle.remove()
    assert len(cut.ids) == 1
    assert cut.finish_reason is FinishReason.ABORT

    rest = ask(0, [*first.prompt_ids, *cut.ids], max_new_tokens=9)
    with recorded_inputs(model) as shapes:
        completions = engine.generate([rest])

    assert shapes[0] == (1, 1)
    assert_logprobs_are_those_of_a_whole_pass(model, [rest], completions)


def test_each_reply_keeps_to_its_own_limit_and_says_why_it_ended(tiny_model):
    requests = [
        ask(i, [5, 6], max_new_tokens=limit, seed=i) for i, limit in enumerate([1, 2, 3, 30, 30])
    ]
    completions = make_engine(tiny_model).generate(requests)

    for asked, reply in zip(requests, completions, strict=True):
        assert 1 <= len(reply.ids) <= asked.max_new_tokens
        assert STOP_IDS.isdisjoint(reply.ids[:-1])
        if reply.ids[-1] in STOP_IDS:
            assert reply.finish_reason is FinishReason.STOP
        else:
            assert len(reply.ids) == asked.max_new_tokens
            assert reply.finish_reason is FinishReason.LENGTH
    reasons = {reply.finish_reason for reply in completions}
    assert reasons == {FinishReason.STOP, FinishReason.LENGTH}


def test_no_requests_are_no_replies(tiny_model):
    assert make_engine(tiny_model).generate([]) == []


def test_one_process_has_one_rank(tiny_model):
    engine = make_engine(tiny_model)
    engine.resize(1)
    with pytest.raises(ValueError, match="tp must be 1, got 2"):
        engine.resize(2)
