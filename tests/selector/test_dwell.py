from random import Random

import pytest
from earl_selector.dwell import expect_dwell_steps


@pytest.mark.parametrize("num_steps", [1, 2, 7])
def test_first_spell_is_expected_to_last_as_long_again(num_steps):
    assert expect_dwell_steps([False, *[True] * num_steps]) == num_steps


def test_spell_that_never_was_is_expected_to_last_one_step():
    assert expect_dwell_steps([]) == expect_dwell_steps([False, False]) == 1.0


def test_ended_spells_count_as_exits():
    # Spells of 3 and 1 have ended, one of 2 goes on: 2 + 0 + 1 stays, 2 exits.
    wins = [True, True, True, False, True, False, False, True, True]
    assert expect_dwell_steps(wins) == (3 + 1) / (2 + 1)


def test_estimate_approaches_the_mean_of_geometric_spells():
    rng = Random(0)
    wins, now = [], True
    for _ in range(20_000):
        wins.append(now)
        now = rng.random() < 0.8 if now else rng.random() < 0.5
    assert expect_dwell_steps(wins) == pytest.approx(0.8 / 0.2, rel=0.05)
