"""Which episodes share what."""

from itertools import pairwise

import pytest
from earl_trainer.rollout.starts import (
    add_greedy,
    grouped_starts,
    paired_starts,
    self_play_starts,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def by_group(starts):
    groups = {}
    for start in starts:
        groups.setdefault(start.group, []).append(start)
    return list(groups.values())


@settings(derandomize=True, max_examples=30)
@given(
    num_groups=st.integers(1, 6),
    group_size=st.integers(1, 5),
    num_seats=st.integers(1, 3),
    step=st.integers(0, 1000),
)
def test_a_group_shares_everything_but_the_learners_own_sampling(
    num_groups, group_size, num_seats, step
):
    starts = grouped_starts(
        7,
        step=step,
        num_episodes=num_groups * group_size,
        group_size=group_size,
        num_seats=num_seats,
    )
    groups = by_group(starts)

    assert [start.episode for start in starts] == list(range(num_groups * group_size))
    assert [len(group) for group in groups] == [group_size] * num_groups
    assert all(len({(start.seat, start.game_seed) for start in group}) == 1 for group in groups)
    assert len({start.reply_seed for start in starts}) == len(starts)
    assert len({group[0].game_seed for group in groups}) == num_groups
    assert [group[0].seat for group in groups] == [i % num_seats for i in range(num_groups)]


def test_no_seed_comes_back_at_another_step_or_under_another_seed():
    plans = [
        grouped_starts(seed, step=step, num_episodes=8, group_size=2, num_seats=2)
        for seed in (0, 1)
        for step in (0, 1)
    ]

    game_seeds = [{start.game_seed for start in plan} for plan in plans]
    reply_seeds = [{start.reply_seed for start in plan} for plan in plans]
    assert all(len(seeds) == 4 for seeds in game_seeds)
    assert len(set().union(*game_seeds)) == 16
    assert len(set().union(*reply_seeds)) == 32


def test_a_plan_is_the_same_every_time():
    plan = grouped_starts(3, step=5, num_episodes=6, group_size=3, num_seats=2)

    assert plan == grouped_starts(3, step=5, num_episodes=6, group_size=3, num_seats=2)


def test_episodes_that_do_not_fill_groups_are_refused():
    with pytest.raises(ValueError, match=r"multiple of group_size, got 10 and 4$"):
        grouped_starts(0, step=0, num_episodes=10, group_size=4, num_seats=2)


@pytest.mark.parametrize("num_seats", [1, 2, 3])
def test_a_match_plays_every_game_seed_once_from_each_seat(num_seats):
    starts = paired_starts(0, num_games=4 * num_seats, num_seats=num_seats)
    groups = by_group(starts)

    assert len(groups) == 4
    assert all([start.seat for start in group] == list(range(num_seats)) for group in groups)
    assert all(len({start.game_seed for start in group}) == 1 for group in groups)
    assert all(a[0].game_seed != b[0].game_seed for a, b in pairwise(groups))
    assert len({start.reply_seed for start in starts}) == len(starts)


def test_a_match_that_cannot_be_paired_is_refused():
    with pytest.raises(ValueError, match=r"multiple of the game's 2 seats, got 5$"):
        paired_starts(0, num_games=5, num_seats=2)


@settings(derandomize=True, max_examples=30)
@given(num_groups=st.integers(1, 4), group_size=st.integers(1, 4), num_seats=st.integers(1, 3))
def test_in_self_play_every_table_has_all_seats_and_a_group_starts_alike(
    num_groups, group_size, num_seats
):
    num_episodes = num_groups * group_size * num_seats
    starts = self_play_starts(
        7, step=1, num_episodes=num_episodes, group_size=group_size, num_seats=num_seats
    )
    groups = by_group(starts)

    assert [start.episode for start in starts] == list(range(num_episodes))
    assert [len(group) for group in groups] == [group_size * num_seats] * num_groups
    assert len({start.reply_seed for start in starts}) == num_episodes
    assert len({group[0].game_seed for group in groups}) == num_groups
    for group in groups:
        assert len({start.game_seed for start in group}) == 1
        tables = {start.table for start in group}
        assert len(tables) == group_size
        for table in tables:
            seats = [start.seat for start in group if start.table == table]
            assert seats == list(range(num_seats))


def test_in_self_play_episodes_fill_groups_of_whole_tables():
    with pytest.raises(ValueError, match=r"group_size times the game's 2 seats, got 12 and 4$"):
        self_play_starts(0, step=0, num_episodes=12, group_size=4, num_seats=2)


@pytest.mark.parametrize(
    ("plan", "games"), [(grouped_starts, (3, 1, 2, 1, 2, 3)), (self_play_starts, (3, 1, 2))]
)
def test_all_episodes_of_a_group_play_equally_many_games(plan, games):
    starts = plan(0, step=0, num_episodes=12, group_size=2, num_seats=2, num_games=games)

    played = [{start.num_games for start in group} for group in by_group(starts)]
    assert played == [{number} for number in games]


def test_alone_each_episode_is_a_table_and_only_matches_are_marked():
    starts = grouped_starts(0, step=0, num_episodes=4, group_size=2, num_seats=2, num_games=3)

    assert [start.table for start in starts] == [0, 1, 2, 3]
    assert {(start.num_games, start.match) for start in starts} == {(3, False)}
    pairs = paired_starts(0, num_games=4, num_seats=2)
    assert [start.table for start in pairs] == [0, 1, 2, 3]
    assert {(start.num_games, start.match) for start in pairs} == {(1, True)}


@pytest.mark.parametrize(("plan", "seats"), [(grouped_starts, 1), (self_play_starts, 2)])
def test_a_greedy_table_is_like_the_first_of_its_group_and_stands_behind_it(plan, seats):
    starts = plan(3, step=5, num_episodes=12, group_size=3, num_seats=2)
    planned = add_greedy(starts)

    assert [start for start in planned if not start.greedy] == starts
    assert len({start.episode for start in planned}) == len(planned)
    for group in by_group(planned):
        greedy, sampled = group[-seats:], group[:-seats]
        assert all(start.greedy for start in greedy)
        assert len({start.table for start in greedy}) == 1
        assert greedy[0].table not in {start.table for start in starts}
        shared = [(start.seat, start.game_seed, start.num_games) for start in greedy]
        assert shared == [(s.seat, s.game_seed, s.num_games) for s in sampled[:seats]]
