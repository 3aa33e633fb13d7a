"""Seeds and draws that batches of every kind share."""

import numpy as np
import pytest
from earl_envs.batch_base import draw_place, episode_seed, read_only, slot_seeds


def test_slots_have_seeds_of_their_own_whatever_the_size():
    assert slot_seeds(3, 5)[:2] == slot_seeds(3, 2)
    assert len({*slot_seeds(3, 5), *slot_seeds(4, 5)}) == 10


def test_first_game_has_the_slots_seed_and_later_ones_their_own():
    assert episode_seed(7, 0) == 7
    seeds = [episode_seed(slot, episode) for slot in (7, 8) for episode in range(50)]
    assert len(set(seeds)) == 100


def test_draw_is_that_of_split_mix():
    # First outputs from seed 1234567, as listed at https://rosettacode.org/wiki/
    # Pseudo-random_numbers/Splitmix64.
    outputs = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    for move, output in enumerate(outputs):
        assert draw_place(1234567, 0, move, num_places=2**31) == output >> 33


@pytest.mark.parametrize("num_places", [1, 3, 7])
def test_draws_are_spread_evenly_over_games_and_moves(num_places):
    draws = [
        draw_place(seed, episode, move, num_places=num_places)
        for seed in range(10)
        for episode in range(10)
        for move in range(42)
    ]
    counts = np.bincount(draws, minlength=num_places)
    assert len(counts) == num_places
    # Five standard deviations of a binomial count.
    spread = np.sqrt(4_200 / num_places * (1 - 1 / num_places))
    assert np.abs(counts - 4_200 / num_places).max() <= 5 * spread


def test_read_only_views_follow_the_array():
    array = np.zeros(2)
    view = read_only(array)
    array[0] = 1
    assert view.tolist() == [1, 0]
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 2
