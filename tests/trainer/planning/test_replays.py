"""What the simulated pipeline says of AReaL's figures."""

from itertools import pairwise
from math import inf

import pytest
from earl_trainer.planning.areal import TABLE_2_TOKENS_PER_S, areal_model
from earl_trainer.planning.replays import (
    measure_speedup,
    replay_scaling,
    replay_table_1,
    replay_table_2,
    replay_table_7,
    share_devices,
)

RUN = {"num_steps": 60, "seed": 0}


@pytest.fixture(scope="module")
def table_2():
    return {each.eta: each for each in replay_table_2(**RUN)}


@pytest.mark.slow
def test_table_2_is_predicted_within_a_tenth_where_nothing_is_fitted(table_2):
    assert {eta for eta, each in table_2.items() if each.fitted} == {0, 1, inf}
    assert list(table_2) == list(TABLE_2_TOKENS_PER_S)
    for each in table_2.values():
        assert abs(each.error) < (0.02 if each.fitted else 0.1), each.eta


@pytest.mark.slow
def test_an_error_is_the_part_by_which_the_simulated_rate_is_larger(table_2):
    for eta, each in table_2.items():
        rate = each.figures.trained_tokens_per_s
        assert rate == pytest.approx(TABLE_2_TOKENS_PER_S[eta] * (1 + each.error))


@pytest.mark.slow
def test_table_1_is_predicted_from_constants_of_the_small_model():
    small, large = replay_table_1(**RUN)
    assert small.published == pytest.approx(2.77, abs=0.01)
    assert large.published == pytest.approx(2.27, abs=0.01)
    assert (small.num_devices, large.num_devices) == (128, 192)
    assert small.over_same_split == pytest.approx(small.published, rel=0.15)
    assert large.over_same_split == pytest.approx(large.published, rel=0.2)


@pytest.mark.slow
def test_table_7_takes_its_training_speed_from_the_largest_eta_alone():
    table = {each.eta: each for each in replay_table_7(**RUN)}
    assert {eta for eta, each in table.items() if each.fitted} == {16}
    assert all(abs(each.error) < 0.25 for each in table.values())


@pytest.mark.slow
def test_more_devices_help_asynchronous_training_more():
    rows = replay_scaling(num_steps=8, seed=0)
    small = [row for row in rows if row.name == "qwen2.5-1.5b"]
    assert [row.num_devices for row in small] == [128, 256, 512]
    for few, many in pairwise(small):
        assert many.over_same_split > few.over_same_split
        assert many.over_all_devices > few.over_all_devices
    assert all(row.over_same_split > row.over_all_devices for row in rows)


def test_a_speedup_compares_with_both_ways_of_running_synchronously():
    row = measure_speedup("qwen2.5-1.5b", num_devices=512, published=2.5, num_steps=4, seed=0)
    assert row.over_same_split > row.over_all_devices > 1
    assert row.published == 2.5


def test_shared_devices_all_do_both():
    shared = share_devices(areal_model())
    assert shared.num_rollout_devices == shared.num_training_devices == 128
