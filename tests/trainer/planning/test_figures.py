"""From sums to figures."""

from collections import Counter

import pytest
from earl_trainer.planning.figures import Totals, make_figures
from earl_trainer.planning.lengths import LogNormalLengths
from earl_trainer.planning.model import PipelineModel


def test_sums_are_divided_by_their_time_and_their_devices():
    model = PipelineModel(
        lengths=LogNormalLengths(median_tokens=100, tail_ratio=1, max_tokens=100),
        batch_groups=4,
        group_size=2,
        num_rollout_devices=4,
        num_training_devices=2,
        slots_per_device=10,
        decode_s=1.0,
        decode_s_per_sequence=0.0,
        training_s_per_token=1.0,
    )
    totals = Totals(
        elapsed_s=10.0,
        trained_tokens=500,
        generated_tokens=600.0,
        training_s=7.0,
        in_flight_s=80.0,
        idle_device_s=4.0,
        staleness=Counter({3: 1, 0: 6, 1: 3}),
    )
    figures = make_figures(model, totals)
    assert figures.trained_tokens_per_s == 50
    assert figures.generated_tokens_per_s == 60
    assert figures.training_idle_share == pytest.approx(0.3)
    assert figures.rollout_idle_share == pytest.approx(0.1)
    assert figures.sequences_per_device == 2
    assert figures.mean_staleness == pytest.approx(0.6)
    assert figures.max_staleness == 3
    assert list(figures.staleness.items()) == [(0, 6), (1, 3), (3, 1)]
