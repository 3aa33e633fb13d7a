"""What each filter drops, by hand, and what holds whatever the episodes are."""

import pytest
from earl_envs import EndReason
from earl_trainer.algorithms.shaping import RewardShaping
from earl_trainer.experience.filters import FilterRules, drop, facts_of, kept_groups
from hypothesis import given, settings
from hypothesis import strategies as st

ALL = ("zero-variance", "duplicates", "length", "truncated")


@pytest.fixture(scope="session")
def facts(make_episode, make_turn):
    def make(reward, *, names=ALL, group=0, seat=0, reply=(3, 4), cut=False, greedy=False):
        turns = [make_turn([1, 2], reply, cut=cut)]
        episode = make_episode(group=group, seat=seat, turns=turns, greedy=greedy)
        return facts_of(episode, reward, FilterRules(names=names))

    return make


def test_groups_of_equal_rewards_are_dropped_by_seat_and_up_to_rounding(facts):
    played = [
        facts(0.3, group=0),
        facts(0.1 + 0.2, group=0),
        facts(1.0, group=1),
        facts(-1.0, group=1),
        # Both seats of a table of self-play: each compares its own rewards.
        facts(1.0, group=2, seat=0),
        facts(-1.0, group=2, seat=1),
        facts(1.0, group=2, seat=0),
        facts(1.0, group=2, seat=1),
        facts(None, group=1),
    ]
    dropped = drop(played, FilterRules(names=("zero-variance",)))
    zero = "zero-variance"
    assert dropped == [zero, zero, None, None, zero, None, zero, None, None]
    assert kept_groups(played, dropped) == {1, 2}


def test_rewards_are_equal_or_not_as_advantages_see_them(facts):
    played = [facts(0.0, group=0), facts(1e-4, group=0), facts(2.0, group=1), facts(3.0, group=1)]

    def kept(**shaping):
        rules = FilterRules(names=("zero-variance",), shaping=RewardShaping(**shaping))
        return kept_groups(played, drop(played, rules))

    assert kept() == {1}
    assert kept(scale=1000.0) == {0, 1}
    assert kept(max_abs=1.0) == set()


def test_of_equal_replies_to_one_start_the_first_with_a_reward_stays(facts):
    played = [
        facts(None, reply=(3, 4)),
        facts(1.0, reply=(3, 4)),
        facts(1.0, reply=(3, 4)),
        facts(1.0, reply=(4, 3)),
        facts(1.0, reply=(3, 4), seat=1),
        facts(1.0, reply=(3, 4), group=1),
    ]
    dropped = drop(played, FilterRules(names=("duplicates",)))
    assert dropped == [None, None, "duplicates", None, None, None]


def test_episodes_of_another_length_are_dropped(facts):
    played = [facts(1.0, reply=range(length)) for length in (1, 2, 3, 4)]
    rules = FilterRules(names=("length",), min_tokens=2, max_tokens=3)
    assert drop(played, rules) == ["length", None, None, "length"]
    at_least = FilterRules(names=("length",), min_tokens=2)
    assert drop(played, at_least) == ["length", None, None, None]


def test_truncated_episodes_are_dropped_and_still_make_their_group_vary(facts):
    played = [facts(1.0), facts(0.0, cut=True), facts(1.0)]
    rules = FilterRules(names=("zero-variance", "truncated"))
    assert drop(played, rules) == [None, "truncated", None]
    # Dropping it as if it had not been there would leave a group without variance.
    assert drop([played[0], played[2]], rules) == ["zero-variance"] * 2


def test_a_greedy_baseline_is_compared_with_and_never_dropped_or_counted_as_trained_on(facts):
    better = [facts(1.0), facts(1.0, reply=(5,)), facts(0.0, greedy=True, cut=True)]
    assert drop(better, FilterRules(names=ALL)) == [None, None, None]
    equal = [facts(1.0), facts(1.0, greedy=True)]
    dropped = drop(equal, FilterRules(names=ALL))
    assert dropped == ["zero-variance", None]
    assert kept_groups(equal, dropped) == set()


def test_failed_episodes_are_no_filters_business(make_episode, make_turn):
    failed = make_episode(turns=[make_turn([1], [2], cut=True)], end_reason=EndReason.ENV_ERROR)
    rules = FilterRules(names=("truncated",))
    assert drop([facts_of(failed, 1.0, rules)], rules) == [None]


EPISODES = st.lists(
    st.tuples(
        st.one_of(st.none(), st.sampled_from([-1.0, 0.0, 1.0])),
        st.integers(0, 3),
        st.integers(0, 1),
        st.sampled_from([(3,), (3, 4), (5, 6, 7)]),
        st.booleans(),
    ),
    max_size=16,
)


@settings(max_examples=50, deadline=None)
@given(EPISODES, st.lists(st.sampled_from(ALL), unique=True))
def test_every_episode_is_trained_on_or_dropped_once_or_has_nothing_to_train_on(
    facts, episodes, names
):
    played = [
        facts(reward, group=group, seat=seat, reply=reply, cut=cut)
        for reward, group, seat, reply, cut in episodes
    ]
    rules = FilterRules(names=names, min_tokens=2, max_tokens=2)
    dropped = drop(played, rules)
    assert {name for name in dropped if name} <= set(names)
    assert not any(name for name, each in zip(dropped, played, strict=True) if each.reward is None)
    # A second filter drops nothing that the first has left alone without being asked to.
    for name in names:
        alone = drop(played, FilterRules(names=[name], min_tokens=2, max_tokens=2))
        hit = {place for place, by in enumerate(alone) if by}
        assert hit <= {place for place, by in enumerate(dropped) if by}
        assert hit >= {place for place, by in enumerate(dropped) if by == name}
