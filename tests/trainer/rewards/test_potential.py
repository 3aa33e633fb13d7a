"""Differences of a potential telescope, and leave the best policy what it is."""

from itertools import product

import pytest
from earl_trainer.rewards.function import load_function
from earl_trainer.rewards.potential import potential_based
from hypothesis import given
from hypothesis import strategies as st

VALUE = st.floats(-100, 100)


@given(phi=st.lists(VALUE, min_size=1), gamma=st.floats(0.1, 1.0))
def test_the_discounted_sum_is_minus_the_potential_of_the_beginning(transcript, phi, gamma):
    parts = potential_based(lambda _: phi, gamma=gamma)(transcript(*phi))
    assert len(parts) == len(phi)
    total = sum(gamma**step * part for step, part in enumerate(parts))
    assert total == pytest.approx(-phi[0], rel=1e-9, abs=1e-6)


@given(
    phi=st.lists(VALUE, min_size=7, max_size=7),
    ends=st.lists(VALUE, min_size=8, max_size=8),
    gamma=st.floats(0.1, 1.0),
)
def test_in_every_position_the_best_move_stays_the_best(transcript, phi, ends, gamma):
    """A tree of three replies with two moves each, whose leaves have scores."""
    shaping = potential_based(
        lambda episode: [phi[int(reply)] for reply in episode.replies], gamma=gamma
    )

    def gains(weight):
        found = {}
        for moves in product((0, 1), repeat=3):
            places = [0, 1 + moves[0], 3 + 2 * moves[0] + moves[1]]
            parts = shaping(transcript(*places))
            score = ends[4 * moves[0] + 2 * moves[1] + moves[2]]
            for step in range(3):
                to_go = sum(gamma ** (k - step) * parts[k] * weight for k in range(step, 3))
                to_go += gamma ** (3 - step) * score
                known = found.setdefault(moves[:step], {})
                known[moves[step]] = max(to_go, known.get(moves[step], to_go))
        return {place: known[0] - known[1] for place, known in found.items()}

    assert gains(weight=2.0) == pytest.approx(gains(weight=0.0), rel=1e-6, abs=1e-6)


def test_what_it_makes_is_found_as_a_reward_function():
    assert load_function("earl_trainer.rewards.functions.value_shaping:value_shaping")
