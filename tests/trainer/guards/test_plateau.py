"""A reward that rises is let alone, one that stands is not."""

import pytest
from earl_trainer.guards.plateau import RewardPlateau

GUARD = RewardPlateau(least_gain=0.1, num_steps=3)


@pytest.mark.parametrize(
    ("rewards", "found"),
    [
        ([0.0] * 5, False),  # not enough of them
        ([0.0] * 6, True),
        ([0.0, 0.0, 0.0, 0.1, 0.1, 0.1], False),
        ([0.0, 0.0, 0.0, 0.1, 0.1, 0.09], True),
        ([0.5, 0.4, 0.3, 0.2, 0.1, 0.0], True),
        ([0.0, 0.9, 0.0, 0.6, 0.6, 0.6], False),  # the best of noise is not what counts
    ],
)
def test_means_of_two_stretches_are_compared(rewards, found):
    assert (GUARD.judge([(reward,) for reward in rewards]) is not None) == found


def test_it_says_both_means():
    reason = GUARD.judge([(0.25,)] * 6).reason
    assert reason == "mean reward 0.25 of 3 steps is less than 0.1 above the 0.25 of those before"
