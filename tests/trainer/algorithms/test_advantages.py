import math

import pytest
import torch
from earl_trainer.algorithms.advantages import (
    Scores,
    batch_mean,
    constant_one,
    divide_by_group_std,
    greedy_reply,
    group_mean,
    leave_one_out,
    reward_itself,
    running_mean,
    update_baselines,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def group_normalised(scores):
    return divide_by_group_std(group_mean(scores), scores)


GROUP_ESTIMATORS = (group_mean, leave_one_out, group_normalised)

episodes = st.lists(
    st.tuples(st.sampled_from([-1.5, -1.0, -0.2, 0.0, 0.35, 1.0]), st.integers(-2, 3)),
    min_size=1,
    max_size=24,
)


def scores_of(rewards, groups=None, *, seats=None, greedy=None, baselines=(0.0, 0.0)):
    count = len(rewards)
    return Scores(
        rewards=torch.tensor(rewards, dtype=torch.float32),
        groups=torch.tensor(groups or [0] * count, dtype=torch.int64),
        seats=torch.tensor(seats or [0] * count, dtype=torch.int64),
        greedy=torch.tensor(greedy or [False] * count),
        baselines=torch.tensor(baselines),
    )


def estimate(estimator, rewards, groups):
    return estimator(scores_of(rewards, groups)).tolist()


# Group 7: rewards 1, 0, 0, 1 with mean 1/2 and std 1/2. Group -3: 3, 1, 2 with mean 2 and variance
# (1 + 1 + 0) / 3. Group 40: one episode.
REWARDS = [1.0, 3.0, 0.0, 5.0, 1.0, 0.0, 2.0, 1.0]
GROUPS = [7, -3, 7, 40, -3, 7, -3, 7]


def test_normalised_advantages_of_uneven_shuffled_groups_equal_the_sum_done_by_hand():
    third = 1.0 / math.sqrt(2.0 / 3.0)
    expected = [1.0, third, -1.0, 0.0, -third, -1.0, 0.0, 1.0]
    assert estimate(group_normalised, REWARDS, GROUPS) == pytest.approx(expected, abs=1e-6)


def test_distances_from_the_mean_of_uneven_shuffled_groups_equal_the_sum_done_by_hand():
    expected = [0.5, 1.0, -0.5, 0.0, -1.0, -0.5, 0.0, 0.5]
    assert estimate(group_mean, REWARDS, GROUPS) == expected


def test_leaving_one_out_compares_with_the_mean_of_the_others():
    # Group 7: others of a 1 have the mean 1/3, of a 0 2/3. Group -3: 3 - 1.5, 1 - 2.5, 2 - 2.
    expected = [2 / 3, 1.5, -2 / 3, 0.0, -1.5, -2 / 3, 0.0, 2 / 3]
    assert estimate(leave_one_out, REWARDS, GROUPS) == pytest.approx(expected, abs=1e-6)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(episodes=episodes, data=st.data())
@pytest.mark.parametrize("estimator", [*GROUP_ESTIMATORS, batch_mean])
def test_advantages_permute_with_the_batch(estimator, episodes, data):
    rewards, groups = map(list, zip(*episodes, strict=True))
    order = data.draw(st.permutations(range(len(episodes))))
    straight = estimate(estimator, rewards, groups)
    shuffled = estimate(estimator, [rewards[i] for i in order], [groups[i] for i in order])
    assert shuffled == pytest.approx([straight[i] for i in order], abs=1e-6)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(episodes=episodes)
@pytest.mark.parametrize("estimator", GROUP_ESTIMATORS)
def test_a_group_is_judged_alone(estimator, episodes):
    rewards, groups = map(list, zip(*episodes, strict=True))
    together = estimate(estimator, rewards, groups)
    for group in set(groups):
        members = [index for index, other in enumerate(groups) if other == group]
        alone = estimate(estimator, [rewards[i] for i in members], [0] * len(members))
        assert alone == pytest.approx([together[i] for i in members], abs=1e-6)
        assert sum(alone) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("estimator", GROUP_ESTIMATORS)
@pytest.mark.parametrize(("reward", "size"), [(0.5, 7), (-1.5, 16), (0.4, 1)])
def test_equal_rewards_give_exactly_zero(estimator, reward, size):
    assert estimate(estimator, [reward] * size, [5] * size) == [0.0] * size


@pytest.mark.parametrize(("reward", "size"), [(0.35, 7), (0.1, 31), (0.3, 15)])
def test_equal_rewards_that_binary_numbers_miss_are_divided_to_exactly_zero(reward, size):
    assert estimate(group_normalised, [reward] * size, [5] * size) == [0.0] * size


def test_rewards_equal_up_to_rounding_are_divided_to_exactly_zero():
    rewards = [0.1 + 0.2, 0.3, 0.3 + 1e-7, 0.3 - 1e-7]
    assert estimate(group_normalised, rewards, [0] * 4) == [0.0] * 4


def test_one_episode_that_differs_gets_the_advantage_of_the_exact_spread():
    # [x + 0.6] + 7 [x]: the mean is x + 0.6 / 8, the variance 0.36 x 7 / 64, whatever x.
    std = 0.6 * math.sqrt(7.0) / 8.0
    expected = [0.6 * 7 / 8 / std] + [-0.6 / 8 / std] * 7
    assert estimate(group_normalised, [0.95] + [0.35] * 7, [0] * 8) == pytest.approx(
        expected, rel=1e-5
    )


def test_leaving_one_out_of_otherwise_equal_rewards_blows_nothing_up():
    # The others of the first are all equal: a std of theirs would be rounding alone.
    scores = scores_of([0.95] + [0.35] * 7)
    advantages = divide_by_group_std(leave_one_out(scores), scores)
    assert advantages.abs().max() < 4.0


def test_a_common_offset_of_any_size_changes_no_advantage():
    # A variance taken as E[x^2] - E[x]^2 in float32 is off by far more than 1e-4 here.
    offset = estimate(group_normalised, [1000.0, 1001.0, 1000.0, 1000.0], [0] * 4)
    assert offset == pytest.approx(
        estimate(group_normalised, [0.0, 1.0, 0.0, 0.0], [0] * 4), abs=1e-4
    )


def test_a_greedy_episode_is_the_baseline_of_its_own_group_alone():
    scores = scores_of(
        [1.0, 0.25, -1.0, 0.5, -0.5, 7.0],
        [3, 3, 3, 8, 8, 9],
        greedy=[False, True, False, True, False, False],
    )
    # Group 9 has none.
    assert greedy_reply(scores).tolist() == [0.75, 0.0, -1.25, 0.0, -1.0, 0.0]


def test_the_mean_of_the_step_is_taken_off():
    assert estimate(batch_mean, [1.0, 0.0, -4.0], [0, 1, 2]) == [2.0, 1.0, -3.0]


def test_seats_have_baselines_of_their_own():
    scores = scores_of([1.0, 1.0, -1.0], seats=[0, 1, 1], baselines=(0.5, -0.25))
    assert running_mean(scores).tolist() == [0.5, 1.25, -0.75]


def test_a_running_mean_moves_per_episode_and_rests_where_a_seat_has_none():
    scores = scores_of([1.0, 1.0, 1.0], seats=[0, 0, 0])
    moved = update_baselines(torch.tensor([0.0, 0.4]), scores, decay=0.9)
    # Three times b <- 0.9 b + 0.1.
    assert moved.tolist() == pytest.approx([1.0 - 0.9**3, 0.4])


def test_a_running_mean_does_not_depend_on_the_order_within_a_step():
    before = torch.tensor([0.3, 0.0])
    one = update_baselines(before, scores_of([1.0, -1.0, 0.5]), decay=0.9)
    other = update_baselines(before, scores_of([0.5, 1.0, -1.0]), decay=0.9)
    assert torch.allclose(one, other)


def test_the_reward_itself_and_demonstrations_are_compared_with_nothing():
    assert estimate(reward_itself, [-1.0, 0.0, 3.0], [0, 0, 1]) == [-1.0, 0.0, 3.0]
    assert estimate(constant_one, [-1.0, 0.0, 3.0], [0, 0, 1]) == [1.0, 1.0, 1.0]
