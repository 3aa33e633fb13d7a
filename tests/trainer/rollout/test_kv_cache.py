"""Conversations that grow turn by turn attend as whole sequences would."""

import weakref

import pytest
import torch
from earl_trainer.rollout import kv_cache
from earl_trainer.rollout.kv_cache import Conversations, Group, regroup
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel

NUM_VOCAB = 25
CPU = torch.device("cpu")
MODELS = pytest.mark.parametrize("which", ["tiny_model", "gpt2"])


def make(num_rows, num_slots=20):
    return Conversations(num_rows, num_slots=num_slots, device=CPU)


def gather(conversations, rows, num_slots=20):
    (made,) = regroup([Group(picks=[(conversations, rows)], num_slots=num_slots)])
    return made


@pytest.fixture(scope="module")
def gpt2():
    """A model with learned positions: a wrong position changes its logits at once."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        config = GPT2Config(
            vocab_size=NUM_VOCAB, n_positions=256, n_embd=16, n_layer=2, n_head=2, bos_token_id=0,
            eos_token_id=0, initializer_range=0.5,
        )  # fmt: skip
        return GPT2LMHeadModel(config).eval()


@torch.no_grad()
def last_logits(model, conversations, new_ids):
    ids, positions, mask = conversations.prepare(new_ids)
    return model(
        input_ids=ids,
        position_ids=positions,
        attention_mask=mask,
        past_key_values=conversations.cache,
        use_cache=True,
    ).logits[:, -1]


@torch.no_grad()
def whole_logits(model, ids):
    return model(input_ids=torch.tensor([ids])).logits[0, -1]


def assert_last_logits(model, logits, texts):
    for row, text in zip(logits, texts, strict=True):
        torch.testing.assert_close(row, whole_logits(model, text), atol=1e-4, rtol=1e-4)


chunks = st.lists(st.integers(0, NUM_VOCAB - 1), max_size=5)


@settings(derandomize=True, max_examples=20, deadline=None)
@given(data=st.data())
@MODELS
def test_any_schedule_of_chunks_and_moves_gives_the_logits_of_whole_sequences(which, data, request):
    model = request.getfixturevalue(which)
    num_rows = data.draw(st.integers(1, 3))
    conversations = make(num_rows, num_slots=5)
    texts = [[] for _ in range(num_rows)]
    for number in range(data.draw(st.integers(1, 4))):
        if number:
            rows = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=4))
            longest = max(len(texts[row]) for row in rows)
            num_slots = longest + 5 + data.draw(st.integers(0, 2))
            conversations = gather(conversations, rows, num_slots)
            texts = [texts[row] for row in rows]
        new_ids = data.draw(st.lists(chunks, min_size=len(texts), max_size=len(texts)).filter(any))
        logits = last_logits(model, conversations, new_ids)
        texts = [text + ids for text, ids in zip(texts, new_ids, strict=True)]
        assert conversations.contexts == texts
        for row, ids in enumerate(new_ids):
            if ids:
                expected = whole_logits(model, texts[row])
                torch.testing.assert_close(logits[row], expected, atol=1e-5, rtol=1e-5)


def test_slots_positions_and_mask_by_hand():
    conversations = make(2)
    conversations.prepare([[1, 2], [3]])
    ids, positions, mask = conversations.prepare([[4], [5, 6]])

    assert ids.tolist() == [[0, 4], [5, 6]]
    assert positions.tolist() == [[0, 2], [1, 2]]
    assert mask[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 1]]
    assert mask[1, 0].int().tolist() == [[1, 1, 0], [1, 1, 1]]


def test_rows_of_equal_length_need_no_mask_at_first():
    assert make(2).prepare([[1, 2], [3, 4]])[2] is None
    assert make(2).prepare([[1, 2], [3]])[2] is not None
    assert make(2).prepare([[], [3]])[2] is not None


def test_what_is_held_is_the_storage_that_there_is(tiny_model):
    conversations = make(3, num_slots=7)
    assert conversations.num_slots_held == conversations.num_bytes == 0
    last_logits(tiny_model, conversations, [[1, 2, 3], [4], [5, 6]])
    # Two layers of keys and values of width 32 in float32.
    assert conversations.num_slots_held == 3 * 7
    assert conversations.num_bytes == 3 * 7 * (2 * 2 * 32 * 4)

    moved = gather(conversations, [1, 2], num_slots=2)
    assert conversations.num_slots_held == conversations.num_bytes == 0
    assert moved.num_slots_held == 2 * 2
    assert moved.num_bytes == 2 * 2 * (2 * 2 * 32 * 4)


def test_more_tokens_than_slots_are_refused(tiny_model):
    conversations = make(2, num_slots=4)
    last_logits(tiny_model, conversations, [[1, 2, 3], [4]])
    with pytest.raises(ValueError, match="5 tokens do not fit the 4 slots of a row"):
        conversations.prepare([[5, 6], [7]])
    # Nothing was recorded.
    logits = last_logits(tiny_model, conversations, [[5], [6, 7, 8]])
    assert_last_logits(tiny_model, logits, [[1, 2, 3, 5], [4, 6, 7, 8]])


@MODELS
def test_rows_of_several_sets_go_on_in_several_others(which, request):
    model = request.getfixturevalue(which)
    short, long = make(3, num_slots=4), make(1, num_slots=75)
    last_logits(model, short, [[1, 2], [3], [4]])
    last_logits(model, long, [[4] * 70])
    joined, alone = regroup([
        Group(picks=[(long, [0]), (short, [1, 0, 1])], num_slots=72),
        Group(picks=[(short, [2])], num_slots=3),
    ])
    assert (joined.num_slots, alone.num_slots) == (72, 3)

    logits = last_logits(model, joined, [[9], [8], [6, 7], []])
    assert_last_logits(model, logits[:3], [[*[4] * 70, 9], [3, 8], [1, 2, 6, 7]])
    logits = last_logits(model, joined, [[9], [1], [2, 3], [5, 6]])
    assert_last_logits(model, logits, [[*[4] * 70, 9, 9], [3, 8, 1], [1, 2, 6, 7, 2, 3], [3, 5, 6]])
    assert_last_logits(model, last_logits(model, alone, [[5, 6]]), [[4, 5, 6]])


def test_a_set_that_stays_as_it_is_is_not_copied(tiny_model):
    stays, moves = make(2, num_slots=6), make(2, num_slots=6)
    for conversations in (stays, moves):
        last_logits(tiny_model, conversations, [[1, 2], [3]])
    kept, moved = regroup([
        Group(picks=[(stays, [0, 1])], num_slots=6),
        Group(picks=[(moves, [1, 0])], num_slots=6),
    ])
    assert kept is stays
    assert moved is not moves
    assert moved.contexts == [[3], [1, 2]]
    logits = last_logits(tiny_model, kept, [[4], [5]])
    assert_last_logits(tiny_model, logits, [[1, 2, 4], [3, 5]])


def test_never_more_than_one_layer_is_there_twice(tiny_model, monkeypatch):
    layers, num_bytes = weakref.WeakSet(), []
    start, fill = kv_cache._Layer.__init__, kv_cache._Layer.fill

    def recorded_start(self, target):
        start(self, target)
        layers.add(self)

    def recorded_fill(self, parts):
        fill(self, parts)
        num_bytes.append(
            sum(x.room_keys.untyped_storage().nbytes() for x in layers)
            + sum(x.room_values.untyped_storage().nbytes() for x in layers)
        )

    monkeypatch.setattr(kv_cache._Layer, "__init__", recorded_start)
    monkeypatch.setattr(kv_cache._Layer, "fill", recorded_fill)
    conversations = make(4, num_slots=8)
    last_logits(tiny_model, conversations, [[1, 2, 3], [4], [5, 6], [7]])
    before = conversations.num_bytes
    moved = gather(conversations, [0, 1, 2, 3], num_slots=10)

    assert num_bytes == [before + moved.num_bytes // 2, before // 2 + moved.num_bytes]


def test_slots_that_no_token_has_filled_hold_numbers(tiny_model, monkeypatch):
    monkeypatch.setattr(
        torch.Tensor, "new_empty", lambda self, size: self.new_full(size, float("nan"))
    )
    conversations = make(2, num_slots=8)
    last_logits(tiny_model, conversations, [[1, 2, 3], [4]])
    logits = last_logits(tiny_model, gather(conversations, [1, 0], 9), [[5, 6, 7, 8], [9]])
    assert_last_logits(tiny_model, logits, [[4, 5, 6, 7, 8], [1, 2, 3, 9]])
