"""Which conversations keep their rows when there are too few."""

import pytest
from earl_trainer.rollout.conversation_rows import ConversationRows
from earl_trainer.rollout.engine import Request
from hypothesis import given, settings
from hypothesis import strategies as st


def ask(sequence_id, prompt_ids, *, max_new_tokens=1):
    return Request(
        sequence_id=sequence_id,
        prompt_ids=prompt_ids,
        max_new_tokens=max_new_tokens,
        temperature=0.0,
        seed=0,
    )


def make_rows(capacity_tokens, *, max_context_tokens=None):
    return ConversationRows(capacity_tokens=capacity_tokens, max_context_tokens=max_context_tokens)


def begin(rows, sequence_id, num_tokens, *, max_new_tokens=1, waiting=()):
    request = ask(sequence_id, list(range(num_tokens)), max_new_tokens=max_new_tokens)
    return rows.begin(request, waiting=dict.fromkeys([sequence_id, *waiting]).keys())


def finish(rows, sequence_id):
    """End a reply whose context has been read."""
    conversation = rows[sequence_id]
    conversation.num_held = len(conversation.tokens)
    conversation.reply = None


def held(rows):
    return [conversation.sequence_id for conversation in rows.all]


def test_a_conversation_goes_on_in_its_row_with_what_is_held():
    rows = make_rows(100)
    assert begin(rows, 0, 4)
    assert begin(rows, 1, 4)
    finish(rows, 0)
    finish(rows, 1)
    first_row = rows[0].row
    assert begin(rows, 0, 6, max_new_tokens=2)
    assert rows[0].row == first_row
    assert list(rows[0].unread) == [4, 5]
    assert rows[0].num_slots == 8
    assert held(rows) == [1, 0], "in the order of use"
    assert [each.sequence_id for each in rows.running] == [0]


@pytest.mark.parametrize("prompt_ids", [[0, 1, 9, 3, 4], [0, 1, 2], [0, 1, 2, 3]])
def test_a_prompt_that_does_not_extend_what_is_held_is_read_anew(prompt_ids):
    rows = make_rows(100)
    begin(rows, 0, 4)
    finish(rows, 0)
    assert rows.begin(ask(0, prompt_ids), waiting={0})
    assert list(rows[0].unread) == prompt_ids
    assert rows[0].first_prompt == tuple(prompt_ids)


def test_what_is_not_used_for_longest_goes_first_and_only_as_much_as_must():
    rows = make_rows(20, max_context_tokens=5)
    for number in range(4):
        assert begin(rows, number, 4)
        finish(rows, number)
    rows.touch(0)
    assert begin(rows, 4, 4)
    assert held(rows) == [2, 3, 0, 4]
    finish(rows, 4)
    assert begin(rows, 2, 4), "no longer than what is held: read anew"
    assert held(rows) == [3, 0, 4, 2]


def test_what_others_wait_for_goes_last_and_from_the_end_of_the_queue():
    rows = make_rows(20, max_context_tokens=5)
    for number in range(4):
        begin(rows, number, 3)
        finish(rows, number)
    assert begin(rows, 9, 3, waiting=[0, 1, 2])
    assert held(rows) == [0, 1, 2, 9]
    assert begin(rows, 8, 3, waiting=[0, 1, 2])
    assert held(rows) == [0, 1, 9, 8]


def test_a_running_reply_keeps_its_row_and_the_next_waits():
    rows = make_rows(20, max_context_tokens=5)
    for number in range(4):
        assert begin(rows, number, 4)
    assert not begin(rows, 4, 4)
    assert held(rows) == [0, 1, 2, 3]
    finish(rows, 2)
    assert begin(rows, 4, 4)
    assert held(rows) == [0, 1, 3, 4]


def test_nothing_is_dropped_for_a_reply_that_has_to_wait_anyway():
    rows = make_rows(20)
    begin(rows, 0, 4)
    finish(rows, 0)
    assert begin(rows, 1, 9)
    assert not begin(rows, 2, 10)
    assert held(rows) == [0, 1]


def test_rows_grow_with_contexts_and_keep_what_is_held():
    rows = make_rows(64)
    begin(rows, 0, 6)
    finish(rows, 0)
    begin(rows, 1, 20)
    assert rows.rooms.num_slots >= 21
    assert rows[0].num_held == 6
    assert rows[0].row != rows[1].row


def test_after_a_very_long_context_rows_become_short_again_when_many_are_asked_for():
    rows = make_rows(64)
    assert begin(rows, 0, 60)
    finish(rows, 0)
    assert all(begin(rows, number, 6) for number in range(1, 7))
    assert rows.rooms.num_rows >= 6
    assert held(rows) == [1, 2, 3, 4, 5, 6]


def test_rows_for_all_that_wait_are_made_at_once():
    rows = make_rows(1000)
    waiting = list(range(10))
    begin(rows, 0, 6, waiting=waiting)
    assert rows.rooms.num_rows == 10
    for number in waiting[1:]:
        begin(rows, number, 6, waiting=waiting)
    assert (rows.rooms.num_rows, len(rows.running)) == (10, 10)


def test_a_longest_context_beyond_the_capacity_is_no_reason_to_refuse_shorter_ones():
    rows = make_rows(20, max_context_tokens=50)
    assert rows.longest_tokens == 20
    assert begin(rows, 0, 8)
    assert begin(rows, 1, 8)


def test_forgetting_keeps_only_replies_that_are_being_generated_and_clearing_nothing():
    rows = make_rows(100)
    for number in range(3):
        begin(rows, number, 4)
        rows[number].num_held = 4
    finish(rows, 1)
    rows.forget()
    assert held(rows) == [0, 2]
    assert list(rows[0].unread) == [0, 1, 2, 3]
    assert rows.is_running(0)
    assert not rows.is_running(1)
    rows.clear()
    assert held(rows) == []


@settings(derandomize=True, max_examples=100, deadline=None)
@given(data=st.data())
def test_no_two_conversations_share_a_row_and_no_more_is_allocated_than_may_be(data):
    capacity = data.draw(st.integers(12, 60))
    longest = data.draw(st.sampled_from([None, 12, 99]))
    rows = make_rows(capacity, max_context_tokens=longest)
    for _ in range(data.draw(st.integers(1, 30))):
        number = data.draw(st.integers(0, 5))
        action = data.draw(st.sampled_from(["begin", "begin", "finish", "drop", "forget"]))
        running = [each.sequence_id for each in rows.running]
        if action == "begin" and number not in running:
            num_tokens = data.draw(st.integers(1, 11))
            begun = begin(rows, number, num_tokens)
            needed = max([num_tokens + 1, *(each.num_slots for each in rows.running)])
            slots = 12 if longest == 12 else needed
            assert begun == ((len(running) + 1) * slots <= capacity)
            assert set(running) <= set(held(rows)), "no running reply lost its row"
        elif action == "finish" and number in running:
            finish(rows, number)
        elif action == "drop" and number not in running:
            rows.drop(number)
        elif action == "forget":
            rows.forget()
        used = [each.row for each in rows.all]
        assert len(set(used)) == len(used)
        assert all(0 <= row < rows.rooms.num_rows for row in used)
        assert rows.rooms.num_rows * rows.rooms.num_slots <= capacity
        assert all(each.num_slots <= rows.rooms.num_slots for each in rows.all)
