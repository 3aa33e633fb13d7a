"""Running mean and spread are those of all rewards at once."""

from dataclasses import asdict

import numpy as np
import pytest
from earl_trainer.guards.reward_normaliser import RewardNormaliser, RewardStatistics
from earl_trainer.workers.group import ALONE
from hypothesis import given
from hypothesis import strategies as st

REWARD = st.floats(-1e3, 1e3)


@given(steps=st.lists(st.lists(REWARD, max_size=6), min_size=1, max_size=8))
def test_step_by_step_is_all_at_once(steps):
    statistics = RewardStatistics()
    for rewards in steps:
        statistics = statistics.add(rewards)
    everything = [reward for rewards in steps for reward in rewards]
    assert statistics.count == len(everything)
    if everything:
        assert statistics.mean == pytest.approx(np.mean(everything), rel=1e-9, abs=1e-9)
        assert statistics.std == pytest.approx(np.std(everything), rel=1e-6, abs=1e-6)
    assert RewardStatistics(**asdict(statistics)) == statistics


def test_rewards_are_divided_by_the_spread_and_missing_ones_stay_missing():
    statistics = RewardStatistics().add([1.0, 3.0]).add([1.0, 3.0])
    assert (statistics.mean, statistics.std) == (2.0, 1.0)
    wide = RewardStatistics().add([10.0, 30.0])
    assert wide.normalise([30.0, None, 10.0], centre=False) == [3.0, None, 1.0]
    assert wide.normalise([30.0, None, 10.0], centre=True) == [1.0, None, -1.0]


def test_equal_rewards_are_not_blown_up():
    statistics = RewardStatistics().add([2.0] * 5)
    assert statistics.normalise([2.0, 2.5], centre=False) == [2.0, 2.5]
    assert RewardStatistics().normalise([2.0], centre=True) == [2.0]


def test_a_phase_goes_on_from_the_steps_before():
    normaliser = RewardNormaliser("centre", RewardStatistics().add([1.0, 3.0]), ALONE)
    assert normaliser.normalise([1.0, None, 3.0]) == [-1.0, None, 1.0]
    assert normaliser.statistics.count == 4
    assert normaliser.figures == {"guard/reward_mean": 2.0, "guard/reward_std": 1.0}


def test_switched_off_it_changes_and_tells_nothing():
    normaliser = RewardNormaliser("off", RewardStatistics(), ALONE)
    assert normaliser.normalise([5.0, None]) == [5.0, None]
    assert normaliser.statistics.count == 0
    assert normaliser.figures == {}
