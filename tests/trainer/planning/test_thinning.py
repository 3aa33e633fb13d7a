"""A fraction of a pipeline stands for the whole."""

from dataclasses import replace

import pytest
from earl_trainer.planning.lengths import LogNormalLengths
from earl_trainer.planning.model import PipelineModel
from earl_trainer.planning.pipeline import simulate
from earl_trainer.planning.thinning import choose_divisor, simulate_thinned

MODEL = PipelineModel(
    lengths=LogNormalLengths(median_tokens=100, tail_ratio=8, max_tokens=400),
    batch_groups=1000,
    group_size=4,
    num_rollout_devices=12,
    num_training_devices=4,
    slots_per_device=400,
    decode_s=0.010,
    decode_s_per_sequence=0.00003,
    training_s_per_token=0.0001,
    publication_s=0.3,
)


@pytest.mark.parametrize(
    ("changes", "divisor"),
    [
        ({}, 4),
        ({"group_size": 2}, 2),
        ({"group_size": 3}, 2),
        ({"num_training_devices": 3}, 1),
        ({"batch_groups": 10}, 1),
        ({"batch_groups": 1002}, 2),
    ],
)
def test_all_is_divided_alike_and_a_thousand_sequences_stay(changes, divisor):
    assert choose_divisor(replace(MODEL, **changes)) == divisor


@pytest.mark.parametrize("eta", [0, 2])
def test_the_whole_and_the_fraction_agree(eta):
    whole, part = simulate(MODEL, eta, 16, 0), simulate_thinned(MODEL, eta, 16, 0)
    assert whole != part
    for name in ("trained_tokens_per_s", "generated_tokens_per_s", "sequences_per_device"):
        assert getattr(part, name) == pytest.approx(getattr(whole, name), rel=0.04)
    assert part.training_idle_share == pytest.approx(whole.training_idle_share, abs=0.03)
    assert part.mean_staleness == pytest.approx(whole.mean_staleness, abs=0.1)


def test_what_is_small_is_simulated_as_it_is():
    small = replace(MODEL, batch_groups=12)
    assert simulate_thinned(small, 1, 8, 0) == simulate(small, 1, 8, 0)
