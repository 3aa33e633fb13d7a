"""What a pass reads, and whose prompts are read only once."""

import torch
from earl_trainer.rollout.conversation_rows import ConversationRows
from earl_trainer.rollout.engine import Request
from earl_trainer.rollout.read_plan import plan_reads


def make_rows(*prompts):
    """Begin a reply to each prompt."""
    rows = ConversationRows(capacity_tokens=1000, max_context_tokens=20)
    for number, prompt in enumerate(prompts):
        begin(rows, number, prompt)
    return rows


def begin(rows, sequence_id, prompt):
    request = Request(
        sequence_id=sequence_id, prompt_ids=prompt, max_new_tokens=8, temperature=0.0, seed=0
    )
    assert rows.begin(request, waiting={sequence_id})


def plan(rows, *, max_read_tokens=100, share_prefixes=True):
    return plan_reads(rows, max_read_tokens=max_read_tokens, share_prefixes=share_prefixes)


def show(reads):
    return {
        read.conversation.sequence_id: (
            list(read.ids),
            [heir.sequence_id for heir in read.heirs],
            read.is_last,
        )
        for read in reads
    }


def do(rows, reads):
    """Pretend that a pass has read it."""
    for read in reads:
        is_last = read.is_last
        read.conversation.num_held += len(read.ids)
        if is_last:
            rows.share(read.conversation, read.heirs)
            for each in read.readers:
                each.tokens.append(7)


def test_equal_first_prompts_are_read_once():
    rows = make_rows([1, 2, 3], [4, 5], [1, 2, 3], [1, 2, 3, 4])
    assert show(plan(rows)) == {
        0: ([1, 2, 3], [2], True),
        1: ([4, 5], [], True),
        3: ([1, 2, 3, 4], [], True),
    }
    assert len(plan(rows)) == 3, "a pass that failed is planned again as it was"
    do(rows, plan(rows))
    assert show(plan(rows)) == {number: ([7], [], True) for number in range(4)}


def test_unless_they_are_not_to_be_shared():
    rows = make_rows([1, 2, 3], [1, 2, 3])
    assert show(plan(rows, share_prefixes=False)) == {
        0: ([1, 2, 3], [], True),
        1: ([1, 2, 3], [], True),
    }


def test_one_that_comes_later_takes_what_is_held_and_reads_the_last_token():
    rows = make_rows([1, 2, 3])
    rows.rooms.write(0, torch.tensor([0, 1, 2]), *torch.ones(2, 3, 1, 1))
    do(rows, plan(rows))
    begin(rows, 1, [1, 2, 3])
    begin(rows, 2, [1, 2, 3])
    assert show(plan(rows)) == {0: ([7], [], True), 1: ([3], [2], True)}
    keys, _ = rows.rooms.read(0, slice(rows[1].row, rows[1].row + 1), num_slots=3)
    assert keys.flatten().tolist() == [1.0, 1.0, 0.0]
    rows.forget()
    assert show(plan(rows)) == {0: ([1, 2, 3, 7], [], True), 1: ([1, 2, 3], [2], True)}


def test_a_reply_of_a_later_turn_is_no_source_for_its_own_prompt():
    rows = make_rows([1, 2])
    do(rows, plan(rows))
    rows[0].reply = None
    begin(rows, 0, [1, 2, 7, 8])
    begin(rows, 1, [1, 2, 7, 8])
    begin(rows, 2, [1, 2])
    assert show(plan(rows)) == {
        0: ([7, 8], [], True),
        1: ([1, 2, 7, 8], [], True),
        2: ([2], [], True),
    }


def test_what_is_asked_for_again_with_another_prompt_is_not_taken_for_the_first():
    rows = make_rows([1, 2, 3])
    rows[0].reply = None
    begin(rows, 0, [4, 5, 6])
    begin(rows, 1, [1, 2, 3])
    assert show(plan(rows)) == {0: ([4, 5, 6], [], True), 1: ([1, 2, 3], [], True)}


def test_prompts_longer_than_a_pass_are_read_in_several_while_replies_go_on():
    rows = make_rows([9])
    do(rows, plan(rows))
    begin(rows, 1, [1, 2, 3, 4, 5])
    begin(rows, 2, [1, 2, 3, 4, 5])
    begin(rows, 3, [6, 7])
    expected = [
        {0: ([7], [], True), 1: ([1, 2, 3], [2], False)},
        {0: ([7], [], True), 1: ([4, 5], [2], True), 3: ([6], [], False)},
        {number: ([7], [], True) for number in (0, 1, 2)} | {3: ([7], [], True)},
    ]
    for number, reads in enumerate(expected):
        planned = plan(rows, max_read_tokens=3)
        assert show(planned) == reads, number
        do(rows, planned)
