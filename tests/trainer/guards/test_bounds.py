"""A figure has to stay out of bounds before it counts."""

import math

import pytest
from earl_trainer.guards.bounds import LastingBreach

KL = LastingBreach(figure="policy/kl", high=0.1, num_steps=3)
ENTROPY = LastingBreach(figure="policy/entropy", low=0.5, num_steps=2)


def first_alarm(guard, values):
    """Show the values one by one; return at which of them it finds something first."""
    rows = []
    for place, value in enumerate(values):
        rows = [*rows, (value,)][-guard.num_rows :]
        if guard.judge(rows) is not None:
            return place
    return None


@pytest.mark.parametrize(
    ("guard", "values", "place"),
    [
        (KL, [0.2, 0.2], None),
        (KL, [0.2, 0.2, 0.2], 2),
        (KL, [0.2, 0.2, 0.1, 0.2, 0.2], None),  # at the limit is within it
        (KL, [0.0, 0.2, 0.3, 0.11, 0.2], 3),
        (KL, [math.nan, math.inf, math.nan], 2),
        (ENTROPY, [0.4, 0.5, 0.4], None),
        (ENTROPY, [0.9, 0.4, 0.3], 2),
        (LastingBreach(figure="policy/skipped_updates", high=0.0, num_steps=1), [0.0, 1.0], 1),
    ],
)
def test_it_finds_a_breach_that_lasts_and_no_other(guard, values, place):
    assert first_alarm(guard, values) == place


def test_it_says_which_bound_and_for_how_long():
    evidence = ENTROPY.judge([(0.4,), (0.25,)])
    assert evidence.reason == "policy/entropy 0.25 is below 0.5, for 2 steps in a row"
    assert evidence.num_steps == 2
    assert "above 0.1" in KL.judge([(0.2,)] * 3).reason
