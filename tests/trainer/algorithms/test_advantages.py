import math

import pytest
import torch
from earl_trainer.algorithms.advantages import constant_one, group_normalised
from hypothesis import given, settings
from hypothesis import strategies as st

GROUP_ESTIMATORS = (group_normalised,)

episodes = st.lists(
    st.tuples(st.sampled_from([-1.5, -1.0, -0.2, 0.0, 0.35, 1.0]), st.integers(-2, 3)),
    min_size=1,
    max_size=24,
)


def estimate(estimator, rewards, groups):
    return estimator(
        torch.tensor(rewards, dtype=torch.float32), torch.tensor(groups, dtype=torch.int64)
    ).tolist()


def test_normalised_advantages_of_uneven_shuffled_groups_equal_the_sum_done_by_hand():
    # Group 7: rewards 1, 0, 0, 1 with mean 1/2 and std 1/2. Group -3: 3, 1, 2 with mean 2 and
    # variance (1 + 1 + 0) / 3. Group 40: one episode.
    rewards = [1.0, 3.0, 0.0, 5.0, 1.0, 0.0, 2.0, 1.0]
    groups = [7, -3, 7, 40, -3, 7, -3, 7]
    third = 1.0 / math.sqrt(2.0 / 3.0)
    expected = [1.0, third, -1.0, 0.0, -third, -1.0, 0.0, 1.0]
    assert estimate(group_normalised, rewards, groups) == pytest.approx(expected, abs=1e-6)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(episodes=episodes, data=st.data())
@pytest.mark.parametrize("estimator", GROUP_ESTIMATORS)
def test_advantages_permute_with_the_batch(estimator, episodes, data):
    rewards, groups = zip(*episodes, strict=True)
    order = data.draw(st.permutations(range(len(episodes))))
    straight = estimate(estimator, rewards, groups)
    shuffled = estimate(estimator, [rewards[i] for i in order], [groups[i] for i in order])
    assert shuffled == pytest.approx([straight[i] for i in order], abs=1e-6)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(episodes=episodes)
@pytest.mark.parametrize("estimator", GROUP_ESTIMATORS)
def test_a_group_is_judged_alone(estimator, episodes):
    rewards, groups = zip(*episodes, strict=True)
    together = estimate(estimator, rewards, groups)
    for group in set(groups):
        members = [index for index, other in enumerate(groups) if other == group]
        alone = estimate(estimator, [rewards[i] for i in members], [0] * len(members))
        assert alone == pytest.approx([together[i] for i in members], abs=1e-6)
        assert sum(alone) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("estimator", GROUP_ESTIMATORS)
@pytest.mark.parametrize(
    ("reward", "size"), [(0.35, 7), (0.1, 31), (0.3, 15), (-1.5, 16), (0.4, 1)]
)
def test_equal_rewards_give_exactly_zero(estimator, reward, size):
    assert estimate(estimator, [reward] * size, [5] * size) == [0.0] * size


@pytest.mark.parametrize("estimator", GROUP_ESTIMATORS)
def test_rewards_equal_up_to_rounding_give_exactly_zero(estimator):
    rewards = [0.1 + 0.2, 0.3, 0.3 + 1e-7, 0.3 - 1e-7]
    assert estimate(estimator, rewards, [0] * 4) == [0.0] * 4


def test_one_episode_that_differs_gets_the_advantage_of_the_exact_spread():
    # [x + 0.6] + 7 [x]: the mean is x + 0.6 / 8, the variance 0.36 x 7 / 64, whatever x.
    std = 0.6 * math.sqrt(7.0) / 8.0
    expected = [0.6 * 7 / 8 / std] + [-0.6 / 8 / std] * 7
    assert estimate(group_normalised, [0.95] + [0.35] * 7, [0] * 8) == pytest.approx(
        expected, rel=1e-5
    )


def test_a_common_offset_of_any_size_changes_no_advantage():
    # A variance taken as E[x^2] - E[x]^2 in float32 is off by far more than 1e-4 here.
    offset = estimate(group_normalised, [1000.0, 1001.0, 1000.0, 1000.0], [0] * 4)
    assert offset == pytest.approx(
        estimate(group_normalised, [0.0, 1.0, 0.0, 0.0], [0] * 4), abs=1e-4
    )


def test_demonstrations_weigh_alike_whatever_their_reward():
    assert estimate(constant_one, [-1.0, 0.0, 3.0], [0, 0, 1]) == [1.0, 1.0, 1.0]
