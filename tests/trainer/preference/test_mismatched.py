import pytest
from earl_dispatch.testing import run_ranks
from earl_trainer.preference.lines import Line
from earl_trainer.preference.mismatched import mismatched_lines
from earl_trainer.workers.group import Group
from torch import distributed


def line(prompt, answer):
    return Line(
        token_ids=(*prompt, *answer),
        trained=(False,) * len(prompt) + (True,) * len(answer),
        num_prompt=len(prompt),
    )


def tokens(lines):
    return [line.token_ids for line in lines]


def test_where_all_prompts_differ_each_gets_the_next_answer():
    lines = [line([1], [2]), line([3, 4], [5, 6]), line([7], [8])]
    mixed = mismatched_lines(lines, max_tokens=9)
    assert tokens(mixed) == [(1, 5, 6), (3, 4, 8), (7, 2)]
    assert mixed[1].trained == (False, False, True)
    assert mixed[1].num_prompt == 2


def test_games_of_one_group_never_answer_each_others_prompt():
    groups = [[line([prompt], [10 * prompt + place]) for place in range(3)] for prompt in (1, 2, 3)]
    mixed = mismatched_lines([game for group in groups for game in group], max_tokens=9)
    # Every answer is used once.
    assert tokens(mixed) == [
        *((1, 20), (1, 21), (1, 22)),
        *((2, 30), (2, 31), (2, 32)),
        *((3, 10), (3, 11), (3, 12)),
    ]


def test_the_few_answers_to_other_prompts_are_taken_in_turn():
    lines = [*(line([1], [place]) for place in (2, 3, 4)), line([5], [6]), line([5], [7])]
    mixed = mismatched_lines(lines, max_tokens=9)
    assert tokens(mixed) == [(1, 6), (1, 7), (1, 6), (5, 2), (5, 3)]


@pytest.mark.parametrize("lines", [[], [line([1], [2])], [line([1], [2]), line([1], [3])]])
def test_without_another_prompt_nothing_is_mismatched(lines):
    assert not mismatched_lines(lines, max_tokens=9)


def test_answers_that_would_leave_the_context_are_cut():
    lines = [line([1, 2, 3], [4]), line([5], [6, 7, 8])]
    mixed = mismatched_lines(lines, max_tokens=4)
    assert tokens(mixed) == [(1, 2, 3, 6), (5, 4)]
    assert mixed[0].trained == (False, False, False, True)


def mixed_on_every_rank():
    rank = distributed.get_rank()
    group = Group(
        rank=rank, size=distributed.get_world_size(), process_group=distributed.group.WORLD
    )
    # The second worker has the prompt of the first and another one, the third has nothing.
    own = [[line([1], [2])], [line([1], [3]), line([4], [5])], []][rank]
    return tokens(mismatched_lines(own, max_tokens=9, workers=group))


def test_a_worker_with_one_prompt_takes_answers_of_others():
    assert run_ranks(3, mixed_on_every_rank) == [[(1, 5)], [(1, 5), (4, 3)], []]
