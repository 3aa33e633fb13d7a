"""A spike stands out from the steps before it, whatever their level and noise."""

import numpy as np
import pytest
from earl_trainer.guards.spike import LossSpike
from hypothesis import given
from hypothesis import strategies as st

GUARD = LossSpike(deviations=10.0, num_steps=20)


def finds(values):
    return GUARD.judge([(float(value),) for value in values]) is not None


def noise(seed, size=20, scale=0.1):
    return np.random.default_rng(seed).normal(0.3, scale, size)


@given(seed=st.integers(0, 10_000))
def test_noise_alone_is_no_spike_and_a_jump_is_one(seed):
    before = noise(seed)
    assert not finds([*before, 0.3 + 3 * 0.1])
    assert finds([*before, 0.3 + 40 * 0.1])
    assert not finds([*before, 0.3 - 40 * 0.1]), "a loss that falls is none"


def test_nothing_is_found_before_there_is_enough_to_compare_with():
    assert not finds([*noise(0, size=19), 100.0])
    assert finds([*noise(0, size=20), 100.0])


def test_spikes_among_the_steps_before_hide_none():
    before = noise(1)
    before[[3, 9, 15]] = 50.0
    assert finds([*before, 50.0])


@pytest.mark.parametrize(("level", "harmless", "spike"), [(0.0, 0.009, 0.011), (50.0, 50.4, 50.6)])
def test_a_loss_that_never_moved_may_move_a_little(level, harmless, spike):
    assert not finds([level] * 20 + [harmless])
    assert finds([level] * 20 + [spike])


def test_the_distance_is_the_modified_z_score():
    before = [float(value % 5) for value in range(20)]  # median 2, median distance 1
    guard = LossSpike(deviations=4.0, num_steps=20)
    inside, outside = 2.0 + 4.0 * 1.4826 - 1e-6, 2.0 + 4.0 * 1.4826 + 1e-6
    assert guard.judge([(value,) for value in [*before, inside]]) is None
    found = guard.judge([(value,) for value in [*before, outside]])
    assert found.reason == "loss 7.93 is 4 deviations above the median 2 of 20 steps"
    assert found.num_steps == 1
