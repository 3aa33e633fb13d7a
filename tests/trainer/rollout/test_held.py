"""What is held is found, taken and dropped in the right order, within its slots."""

import weakref

import pytest
import torch
from earl_trainer.rollout import held as held_module
from earl_trainer.rollout.engine import Request
from earl_trainer.rollout.held import HeldConversations
from earl_trainer.rollout.kv_cache import Conversations


@pytest.fixture
def hold(tiny_model):
    """Hold contexts by their sequences, `num_slots` each."""

    @torch.no_grad()
    def make(held, contexts, *, num_slots):
        conversations = Conversations(
            len(contexts), num_slots=num_slots, device=torch.device("cpu")
        )
        ids, positions, mask = conversations.prepare(list(contexts.values()))
        tiny_model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=conversations.cache,
        )
        held.keep(list(contexts), conversations)

    return make


@pytest.fixture
def held(hold):
    """Three waves: 2 x 6, 1 x 4 and 3 x 5 slots."""
    conversations = HeldConversations()
    hold(conversations, {0: [5, 6, 7], 1: [5, 6, 8, 9]}, num_slots=6)
    hold(conversations, {2: [10]}, num_slots=4)
    hold(conversations, {3: [5], 4: [6, 7], 5: [8, 9]}, num_slots=5)
    return conversations


def ask(sequence_id, prompt_ids, max_new_tokens=1):
    return Request(
        sequence_id=sequence_id,
        prompt_ids=prompt_ids,
        max_new_tokens=max_new_tokens,
        temperature=0.0,
        seed=0,
    )


def test_what_is_held_is_counted_in_slots_and_bytes(held):
    assert held.num_slots == 12 + 4 + 15
    assert held.num_bytes == held.num_slots * (2 * 2 * 32 * 4)
    assert held.sequence_ids == [0, 1, 2, 3, 4, 5]
    held.clear()
    assert held.sequence_ids == []
    assert held.num_slots == held.num_bytes == 0


def test_only_a_longer_prompt_with_the_same_beginning_continues(held):
    found = held.find([
        ask(4, [6, 7, 1]),
        ask(0, [5, 6, 7]),  # nothing new
        ask(1, [5, 6, 8, 1, 2]),  # another text
        ask(2, [10, 11]),
        ask(6, [5, 6, 7, 8]),  # never seen
    ])
    assert found == {0: (2, 1), 3: (1, 0)}


def test_rows_are_taken_out_of_several_waves_and_the_others_stay(held):
    requests = [ask(4, [6, 7, 1]), ask(1, [5, 6, 8, 9, 2, 3]), ask(3, [5, 1])]
    places, taken = held.take(requests, num_slots=7, spare_slots=100)

    assert places == [1, 2, 0]
    assert taken.contexts == [[5, 6, 8, 9], [5], [6, 7]]
    assert taken.num_slots == 7
    assert held.sequence_ids == [0, 2, 5]
    # What was split off takes no more than its tokens, what was left alone stays as it was.
    assert held.num_slots == 3 + 4 + 2


def test_beside_new_requests_what_is_taken_has_room_for_its_prompts(held):
    places, taken = held.take([ask(9, [1] * 8), ask(4, [6, 7, 1])], num_slots=9, spare_slots=100)
    assert places == [1]
    assert taken.num_slots == 3


def test_what_is_asked_for_but_not_continued_is_dropped(held):
    places, taken = held.take([ask(1, [7, 7]), ask(2, [10])], num_slots=3, spare_slots=100)
    assert places == []
    assert taken is None
    assert held.sequence_ids == [0, 3, 4, 5]


@pytest.mark.parametrize(
    ("spare_slots", "sequence_ids", "num_slots"),
    [
        (31, [0, 1, 2, 3, 4, 5], 31),
        (30, [0, 1, 2, 3, 4, 5], 4 * 2 + 4 + 15),  # the oldest gives up what it does not use
        (26, [0, 2, 3, 4, 5], 4 + 4 + 15),
        (19, [2, 3, 4, 5], 4 + 15),
        (16, [2, 3, 4, 5], 1 + 15),
        (14, [0, 2, 3, 4, 5], 4 + 4 + 6),
        (4, [3, 4], 4),
        (0, [], 0),
    ],
)
def test_what_was_not_asked_for_longest_goes_first(held, spare_slots, sequence_ids, num_slots):
    held.take([ask(9, [1])], num_slots=2, spare_slots=spare_slots)
    assert held.sequence_ids == sequence_ids
    assert held.num_slots == num_slots


def test_what_is_dropped_is_gone_before_anything_is_copied(held, monkeypatch):
    dropped, seen, regroup = weakref.ref(held._waves[0].conversations), [], held_module.regroup

    def recorded(groups):
        seen.append(dropped())
        return regroup(groups)

    monkeypatch.setattr(held_module, "regroup", recorded)
    held.take([ask(2, [10, 11])], num_slots=3, spare_slots=15)
    assert seen == [None]
    assert held.sequence_ids == [3, 4, 5]
