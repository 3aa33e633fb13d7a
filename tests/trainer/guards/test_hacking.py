"""Reward up and score down together, over several checkups, is what counts."""

import pytest
from earl_trainer.guards.hacking import RewardHacking

GUARD = RewardHacking(least_drop=0.1, num_checkups=3, every_steps=2)


def rows(*checkups, last_steps=2):
    """Rows of (reward, score) per checkup, two steps each."""
    every = [
        (reward, float(2 * number), score)
        for number, (reward, score) in enumerate(checkups)
        for _ in range(2)
    ]
    return every[: len(every) - 2 + last_steps][-GUARD.num_rows :]


@pytest.mark.parametrize(
    ("checkups", "found"),
    [
        ([(0.1, 0.8), (0.2, 0.6)], False),  # too few
        ([(0.1, 0.8), (0.2, 0.9), (0.3, 0.6)], True),
        ([(0.1, 0.8), (0.2, 0.7), (0.1, 0.6)], False),  # the reward did not rise
        ([(0.1, 0.8), (0.2, 0.7), (0.3, 0.75)], False),  # the score hardly fell
        ([(0.1, 0.6), (0.2, 0.7), (0.3, 0.8)], False),
        ([(0.9, 0.1), (0.1, 0.8), (0.2, 0.7), (0.3, 0.6)], True),  # the first is too old
    ],
)
def test_first_and_last_checkup_are_compared(checkups, found):
    assert (GUARD.judge(rows(*checkups)) is not None) == found


def test_the_first_step_after_a_checkup_is_enough():
    latest = rows((0.1, 0.8), (0.2, 0.7), (0.3, 0.6), last_steps=1)
    evidence = GUARD.judge(latest)
    assert evidence.reason == (
        "mean reward rose from 0.1 to 0.3 while the score of checkups fell from 0.8 to 0.6"
    )
    # Five steps, the first of them with the weights of the first checkup.
    assert evidence.num_steps == 4
