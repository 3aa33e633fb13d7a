"""Conversations that grow turn by turn attend as whole sequences would."""

import pytest
import torch
from earl_trainer.rollout.kv_cache import Conversations
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel

NUM_VOCAB = 25
CPU = torch.device("cpu")


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


chunks = st.lists(st.integers(0, NUM_VOCAB - 1), max_size=5)


@settings(derandomize=True, max_examples=12, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("which", ["tiny_model", "gpt2"])
def test_any_schedule_of_ragged_chunks_gives_the_logits_of_whole_sequences(which, data, request):
    model = request.getfixturevalue(which)
    num_rows = data.draw(st.integers(1, 3))
    conversations = Conversations(num_rows, CPU)
    texts = [[] for _ in range(num_rows)]
    for _ in range(data.draw(st.integers(1, 4))):
        new_ids = data.draw(st.lists(chunks, min_size=num_rows, max_size=num_rows).filter(any))
        logits = last_logits(model, conversations, new_ids)
        texts = [text + ids for text, ids in zip(texts, new_ids, strict=True)]
        assert conversations.contexts == texts
        for row, ids in enumerate(new_ids):
            if ids:
                expected = whole_logits(model, texts[row])
                torch.testing.assert_close(logits[row], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("first_tokens", [1, 63, 64, 65, 130])
def test_contexts_outgrow_the_room_they_were_given(tiny_model, first_tokens):
    text = torch.randint(
        0, NUM_VOCAB, (first_tokens + 70,), generator=torch.Generator().manual_seed(0)
    ).tolist()
    conversations = Conversations(1, CPU)
    last_logits(tiny_model, conversations, [text[:first_tokens]])
    last_logits(tiny_model, conversations, [text[first_tokens:-1]])
    logits = last_logits(tiny_model, conversations, [text[-1:]])

    torch.testing.assert_close(logits[0], whole_logits(tiny_model, text), atol=1e-5, rtol=1e-5)


def test_chosen_rows_may_be_dropped_reordered_and_repeated(tiny_model):
    conversations = Conversations(3, CPU)
    last_logits(tiny_model, conversations, [[1, 2, 3], [4], [5, 6]])

    conversations.select([2, 0, 2])
    logits = last_logits(tiny_model, conversations, [[7], [8, 9], [10, 11, 12]])

    texts = [[5, 6, 7], [1, 2, 3, 8, 9], [5, 6, 10, 11, 12]]
    assert conversations.contexts == texts
    for row, text in enumerate(texts):
        torch.testing.assert_close(
            logits[row], whole_logits(tiny_model, text), atol=1e-5, rtol=1e-5
        )


def test_slots_positions_and_mask_by_hand():
    conversations = Conversations(2, CPU)
    conversations.prepare([[1, 2], [3]])
    ids, positions, mask = conversations.prepare([[4], [5, 6]])

    assert ids.tolist() == [[0, 4], [5, 6]]
    assert positions[0, 1] == 2
    assert positions[1].tolist() == [1, 2]
    # Slots 0 1 | 2 3: row 0 leaves slot 2 empty, row 1 slot 0.
    assert mask[0, 0, 1].int().tolist() == [1, 1, 0, 1]
    assert mask[1, 0].int().tolist() == [[0, 1, 1, 0], [0, 1, 1, 1]]


def test_rows_of_equal_length_need_no_mask_at_first():
    assert Conversations(2, CPU).prepare([[1, 2], [3, 4]])[2] is None
    assert Conversations(2, CPU).prepare([[1, 2], [3]])[2] is not None


@pytest.mark.parametrize("which", ["tiny_model", "gpt2"])
def test_joined_and_copied_rows_go_on_as_whole_sequences(which, request):
    model = request.getfixturevalue(which)
    short, long = Conversations(2, CPU), Conversations(1, CPU)
    last_logits(model, short, [[1, 2], [3]])
    last_logits(model, long, [[4] * 70])
    last_logits(model, long, [[5]])
    joined = Conversations.join([short, long])
    copied = joined.copy([2, 0])
    assert joined.num_tokens == 74
    assert copied.contexts == [[*[4] * 70, 5], [1, 2]]

    logits = last_logits(model, joined, [[6, 7], [8], [9]])
    expected = [[1, 2, 6, 7], [3, 8], [*[4] * 70, 5, 9]]
    for row, ids in enumerate(expected):
        torch.testing.assert_close(logits[row], whole_logits(model, ids), atol=1e-4, rtol=1e-4)
    logits = last_logits(model, copied, [[1], [2, 3]])
    for row, ids in enumerate([[*[4] * 70, 5, 1], [1, 2, 2, 3]]):
        torch.testing.assert_close(logits[row], whole_logits(model, ids), atol=1e-4, rtol=1e-4)
    # The parts are as they were.
    logits = last_logits(model, short, [[4], [5]])
    torch.testing.assert_close(logits[0], whole_logits(model, [1, 2, 4]), atol=1e-4, rtol=1e-4)
