from dataclasses import replace

import pytest
from earl_envs import EndReason
from earl_trainer.preference.games import accepted_of, grade, judged_of, pairs_of, parting


@pytest.fixture
def play(make_episode, make_turn):
    """An episode whose replies are these tokens; the context between is the number of the turn."""

    def make(*replies, group=0, seat=0, **fields):
        turns, prompt = [], [group]
        for place, reply in enumerate(replies):
            turns.append(make_turn(prompt, [reply]))
            prompt = [*prompt, reply, 90 + place]
        return make_episode(group=group, seat=seat, turns=turns, **fields)

    return make


def graded(*scored):
    return grade(
        [episode for episode, _ in scored], [reward for _, reward in scored], drop_truncated=False
    )


def test_lines_part_at_the_first_reply_that_differs(play):
    assert parting(play(1, 2, 3).turns, play(1, 2, 4).turns) == 2
    assert parting(play(1).turns, play(1, 2).turns) is None
    assert parting(play(1, group=0).turns, play(2, group=1).turns) is None


def test_a_pair_is_trained_from_where_it_parts(play):
    ((chosen, rejected),) = pairs_of(graded((play(1, 2), -1.0), (play(1, 3), 1.0)))
    assert chosen.token_ids == (0, 1, 90, 3)
    assert rejected.token_ids == (0, 1, 90, 2)
    assert chosen.trained == rejected.trained == (False, False, False, True)


def test_those_that_part_last_are_paired_first_and_each_once(play):
    early, late, won = play(5), play(1, 2, 4), play(1, 2, 3)
    pairs = pairs_of(graded((early, -1.0), (late, -1.0), (won, 1.0)))
    assert [rejected.token_ids[-1] for _, rejected in pairs] == [4]


def test_among_those_that_part_alike_rewards_lie_furthest_apart(play):
    pairs = pairs_of(graded((play(1), 0.0), (play(2), -1.0), (play(3), 1.0), (play(4), 0.5)))
    answers = [(chosen.token_ids[-1], rejected.token_ids[-1]) for chosen, rejected in pairs]
    assert answers == [(3, 2), (4, 1)]


def test_equal_rewards_other_groups_and_other_seats_make_no_pair(play):
    assert not pairs_of(graded((play(1), 1.0), (play(2), 1.0)))
    assert not pairs_of(graded((play(1, seat=0), 1.0), (play(2, seat=1), -1.0)))
    assert not pairs_of(graded((play(1, group=0), 1.0), (play(2, group=1), -1.0)))


def test_an_episode_that_says_nothing_is_left_out(play):
    fine, failed = play(1), play(2, end_reason=EndReason.ENV_ERROR)
    cut = play(3)
    cut = replace(cut, turns=[replace(cut.turns[0], cut=True)])
    episodes, rewards = [fine, failed, cut, play(4)], [1.0, 1.0, 1.0, None]
    kept = grade(episodes, rewards, drop_truncated=False)
    assert [each.episode for each in kept] == [fine, cut]
    assert [each.episode for each in grade(episodes, rewards, drop_truncated=True)] == [fine]


def test_episodes_at_the_threshold_are_neither_good_nor_bad(play):
    judged = judged_of(graded((play(1), 1.0), (play(2), 0.5), (play(3), -1.0)), threshold=0.5)
    assert [(line.token_ids[-1], good) for line, good in judged] == [(1, True), (3, False)]


def test_accepted_lines_are_above_the_threshold_and_different(play):
    lines = accepted_of(
        graded((play(1), 1.0), (play(1), 1.0), (play(2), 0.0), (play(3), 0.5)), threshold=0.0
    )
    assert [line.token_ids[-1] for line in lines] == [1, 3]
